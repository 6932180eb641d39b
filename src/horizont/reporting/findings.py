"""What the comparator found, said plainly."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from horizont import analysis
from horizont.analysis.communication import staleness
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.reporting import figures, labels
from horizont.reporting.page import FigureOutput
from horizont.reporting.tables import Table, format_table, shorten, text_table


@dataclass(frozen=True)
class Verdict:
    """A finding in a sentence, and whether it is the one hoped for."""

    text: str
    is_good: bool

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        kind = "good" if self.is_good else "bad"
        mark = "✓" if self.is_good else "✗"
        text = f'<p class="hz-verdict hz-{kind}">{mark} {html.escape(self.text)}</p>'
        return {"text/html": text, "text/plain": f"{mark} {self.text}"}


@dataclass(frozen=True)
class Message:
    """A plain sentence in the place of a table."""

    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": f"<p>{html.escape(self.text)}</p>", "text/plain": self.text}


def verdict(text: str, is_good: bool) -> Verdict:
    """Show a finding."""
    return Verdict(text, is_good)


def mutation_table(results: Sequence[Any]) -> Table | Message:
    """Show what the comparator said of deliberate mistakes.

    Parameters
    ----------
    tried
        Each has ``as_row()``: ``mistake, framework, quantity, step, tensor, distance, caught``.
    """
    if not results:
        return Message("On this workload no mistakes were tried; params.yaml names where they are.")
    frame = pd.DataFrame([each.as_row() for each in results])
    frame["framework"] = frame["framework"].map(labels.framework_label)
    frame["detected"] = frame["detected"].map({True: "yes", False: "no"})
    columns = ["description", "framework", "detected", "quantity", "step", "tensor", "distance"]
    return format_table(frame[columns])


def replay_table(results: Sequence[Any]) -> Table | Message:
    """Show what came of replaying asynchronous runs.

    Parameters
    ----------
    replayed
        Each has ``as_row()``: ``system, replayed, reason``, and of a run that went well
        ``updates, tensor, distance, bound``.
    """
    if not results:
        return Message("On this workload nothing was replayed; params.yaml names where it is.")
    frame = pd.DataFrame([each.as_row() for each in results])
    frame["replayed"] = frame["replayed"].map({True: "yes", False: "no"})
    columns = ["system", "replayed", "updates", "tensor", "distance", "bound", "reason"]
    return format_table(frame.reindex(columns=columns))


def staleness_table(records: Sequence[Record]) -> Table | Message:
    """Show how many updates were how stale, of all runs whose updates were recorded."""
    counted = staleness(records)
    if counted.empty:
        return Message("No updates were recorded.")
    return format_table(counted)


def worst_distances(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Pick, of each quantity, step and precision, the row that comes closest to its bound.

    Parameters
    ----------
    rows
        The rows of a proof.
    """
    frame = pd.DataFrame(list(rows))
    if frame.empty:
        return frame
    # An exact quantity has the bound 0: being on it is as good as can be.
    close = frame["distance"] / frame["bound"].where(frame["bound"] > 0, np.inf)
    close = close.where(frame["ok"], np.inf)
    order = ["dtype", "quantity", "step"]
    worst = frame.assign(close=close).groupby(order, sort=False)["close"].idxmax()
    columns = [*order, "tensor", "pair", "distance", "bound"]
    return frame.loc[worst, columns].reset_index(drop=True)


def fault_table(outcomes: pd.DataFrame) -> Table:
    """Write what came of the incidents, a part for each system.

    Parameters
    ----------
    incidents
        As of `horizont.analysis.faults`.
    """
    rows = [_fault_row(row) for _, row in outcomes.iterrows()]
    numbers = {"steps", "detected, s"}
    return text_table(pd.DataFrame(rows), numbers, group_by="system" if rows else None)


def _fault_row(row: pd.Series) -> dict[str, str]:
    if row["reason"]:
        return {**_fault_row_head(row), "first_error": shorten(row["reason"])}
    noticed = row["detected_after_s"]
    return {
        **_fault_row_head(row),
        "steps": f"{row['steps']:.0f} of {row['planned']}",
        "detected, s": "–" if pd.isna(noticed) else f"{noticed:.1f}",
        "first_error": shorten(row["first_error"]),
        "survivors": row["survivors"] or "none",
        "weights still on": row["weight_holders"] or "none: lost",
        "the training": _fault_outcome(row),
    }


def _fault_row_head(row: pd.Series) -> dict[str, str]:
    blank = dict.fromkeys(
        ("steps", "detected, s", "first_error", "survivors", "weights still on"), "–"
    )
    system = labels.system_label(row["system"])
    return {"system": system, "fault": row["fault"], **blank, "the training": "–"}


def _fault_outcome(row: pd.Series) -> str:
    again = {True: ", with the one started again", False: ", without the one started again"}
    return str(row["outcome"]) + (
        again.get(row["rejoined"], "") if row["outcome"] == "completes" else ""
    )


def operator_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw what the classes of operators cost in each system."""
    classes = analysis.operator_classes(records)
    if classes.empty:
        raise UserError("steps.profiled", 0, "at least 1, and a run that went well")
    caption = (
        "What the operators of one training step cost, by class, as the profiler of each framework "
        "tells it: time in an operator without what it calls. Light: forward, dark: backward. "
        "“Outside operators” is what the profiled step took beyond them: interpreter, dispatch "
        "and scheduling."
    )
    figure = figures.operator_bars(classes)
    return FigureOutput(figure, "operators", caption, classes)


def operator_class_table(records: Sequence[Record]) -> Table:
    """Lay the classes side by side: a row a class, a column a system, in milliseconds."""
    classes = analysis.operator_classes(records)
    systems = list(dict.fromkeys(classes["system"]))
    wide = classes.pivot(index="operator_class", columns="system", values="self_s") * 1e3
    wide = wide.reindex(list(analysis.ordered_classes(classes["operator_class"])))[systems]
    wide.loc["step"] = wide.sum()
    cells = wide.map(lambda value: "–" if pd.isna(value) else f"{value:.2f}")
    cells.columns = pd.Index([labels.single_process_label(str(name)) for name in cells.columns])
    numbers = list(cells.columns)
    cells.insert(0, "milliseconds a step", list(cells.index))
    return text_table(cells.reset_index(drop=True), numbers)


def slowest_operators_table(records: Sequence[Record], count: int = 10) -> Table:
    """List the slowest operators of each system by their native names."""
    found = analysis.operator_table(records)
    times = analysis.profiler_overhead(records).set_index("system")["profiled_s"]
    rows = []
    found["self_ms"] = found["self_s"] * 1e3
    for system, own in found.groupby("system", sort=False):
        for each in own.head(count).itertuples():
            rows.append(
                {
                    "title": labels.single_process_label(str(system)),
                    "operator": each.operator,
                    "class": each.operator_class,
                    "inputs": input_shapes(str(each.shapes)),
                    "calls": f"{each.calls:g}",
                    "ms": f"{each.self_ms:.2f}",
                    "of the step": f"{each.self_ms / times[system] / 1e3:.1%}",
                }
            )
    frame = pd.DataFrame(rows)
    return text_table(
        frame, {"calls", "ms", "of the step"}, group_by="title" if len(frame) else None
    )


def input_shapes(shapes: str, limit: int = 2) -> str:
    """Write the shapes of an operator's first inputs: `42×6×14×14, 16×6×5×5`."""
    found = [shape.replace(", ", "×") for shape in re.findall(r"\[([^][]+)\]", shapes)]
    return ", ".join(found[:limit]) if found else "–"


def profiler_overhead_table(records: Sequence[Record]) -> Table:
    """Tell what the profilers cost and what they saw."""
    columns = [
        "system",
        "timed_without_load_s",
        "profiled_s",
        "profile_ratio",
        "operators_s",
        "operators_fraction",
    ]
    return format_table(analysis.profiler_overhead(records), [*columns, "unclassified_fraction"])


def profile_phase_table(records: Sequence[Record]) -> Table:
    """Take the bare step apart by the profile."""
    return format_table(analysis.phases_from_profile(records))
