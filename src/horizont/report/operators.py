"""The operators of a step for readers: a figure and three tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from horizont import analysis
from horizont.errors import UserError
from horizont.records import Record
from horizont.report import figures, words
from horizont.report.picture import Picture
from horizont.report.tables import Table, plain_table, table


def operator_picture(records: Sequence[Record]) -> Picture:
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
    return Picture(figure, "operators", caption, classes)


def operator_class_table(records: Sequence[Record]) -> Table:
    """Lay the classes side by side: a row a class, a column a system, in milliseconds."""
    classes = analysis.operator_classes(records)
    systems = list(dict.fromkeys(classes["system"]))
    wide = classes.pivot(index="operator_class", columns="system", values="self_s") * 1e3
    wide = wide.reindex(list(analysis.ordered_classes(classes["operator_class"])))[systems]
    wide.loc["step"] = wide.sum()
    cells = wide.map(lambda value: "–" if pd.isna(value) else f"{value:.2f}")
    cells.columns = pd.Index([words.alone(str(name)) for name in cells.columns])
    numbers = list(cells.columns)
    cells.insert(0, "milliseconds a step", list(cells.index))
    return plain_table(cells.reset_index(drop=True), numbers)


def slowest_table(records: Sequence[Record], count: int = 10) -> Table:
    """List the slowest operators of each system by their native names."""
    found = analysis.operators(records)
    times = analysis.profile_times(records).set_index("system")["profiled_s"]
    rows = []
    found["self_ms"] = found["self_s"] * 1e3
    for system, own in found.groupby("system", sort=False):
        for each in own.head(count).itertuples():
            rows.append(
                {
                    "title": words.alone(str(system)),
                    "operator": each.operator,
                    "class": each.operator_class,
                    "inputs": input_shapes(str(each.shapes)),
                    "calls": f"{each.calls:g}",
                    "ms": f"{each.self_ms:.2f}",
                    "of the step": f"{each.self_ms / times[system] / 1e3:.1%}",
                }
            )
    frame = pd.DataFrame(rows)
    return plain_table(
        frame, {"calls", "ms", "of the step"}, group_by="title" if len(frame) else None
    )


def input_shapes(told: str, most: int = 2) -> str:
    """Write the shapes of an operator's first inputs: `42×6×14×14, 16×6×5×5`."""
    found = [shape.replace(", ", "×") for shape in re.findall(r"\[([^][]+)\]", told)]
    return ", ".join(found[:most]) if found else "–"


def profile_table(records: Sequence[Record]) -> Table:
    """Tell what the profilers cost and what they saw."""
    columns = ["system", "computing_s", "profiled_s", "profile_ratio", "operators_s", "covered"]
    return table(analysis.profile_times(records), [*columns, "other_share"])


def profile_phase_table(records: Sequence[Record]) -> Table:
    """Take the bare step apart by the profile."""
    return table(analysis.profile_phases(records))
