"""Tables for readers: words for names, a unit in every heading, a dash for what is not known."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from horizont.reporting import labels

CellFormat = str | Callable[[Any], str]


def shorten(reason: object) -> str:
    """Write a reason in a line; the record of the run has it in full."""
    return textwrap.shorten(str(reason), 110, placeholder=" …")


def _flag_or_count(found: object) -> str:
    """Write a flag or a count."""
    if isinstance(found, bool):
        return "yes" if found else ""
    return str(found or "")


def _milliseconds(value_s: float) -> str:
    return f"{value_s * 1e3:.2f}"


#: Column in a data frame -> heading and how to write a value.
COLUMNS: dict[str, tuple[str, CellFormat]] = {
    "system": ("system", lambda name: labels.system_label(str(name))),
    "workload": ("workload", "{}"),
    "block": ("block", lambda number: str(int(number) + 1)),
    "status": ("status", "{}"),
    "reason": ("reason", shorten),
    "comparable": ("comparable", "{}"),
    "disturbed": ("disturbed", _flag_or_count),
    "wall_s": ("wall, s", "{:.1f}"),
    "train_s": ("training, s", "{:.1f}"),
    "background_cpu": ("other load, cores", "{:.2f}"),
    "final_loss": ("final loss", "{:.3f}"),
    "test_accuracy": ("test accuracy", "{:.1%}"),
    "test_perplexity": ("test perplexity", "{:,.0f}"),
    "examples_per_s": ("examples/s", "{:,.0f}"),
    "low": ("from", "{:,.0f}"),
    "high": ("to", "{:,.0f}"),
    "level": ("level", lambda level: f"{level:.0%}" if level else "–"),
    "ok": ("runs", "{:.0f}"),
    "planned": ("planned", "{:.0f}"),
    "step_s": ("bare step, ms", _milliseconds),
    "timed_s": ("bare step, ms", _milliseconds),
    "timed_low_s": ("from", _milliseconds),
    "timed_high_s": ("to", _milliseconds),
    "instrumented_s": ("instrumented, ms", _milliseconds),
    "ratio": ("ratio", "{:.3f}"),
    "ratio_low": ("from", "{:.3f}"),
    "ratio_high": ("to", "{:.3f}"),
    "instrumented_ratio": ("instrumented / bare", "{:.3f}"),
    "timed_without_load_s": ("bare step without load, ms", _milliseconds),
    "load_s": ("load, ms", _milliseconds),
    "forward_s": ("forward, ms", _milliseconds),
    "backward_s": ("backward, ms", _milliseconds),
    "update_s": ("update, ms", _milliseconds),
    "outside_operators_s": ("outside operators, ms", _milliseconds),
    "remainder_s": ("left, ms", _milliseconds),
    "profiled_s": ("profiled, ms", _milliseconds),
    "profile_ratio": ("profiled / computing", "{:.3f}"),
    "operators_s": ("in operators, ms", _milliseconds),
    "operators_fraction": ("of the profiled step", "{:.0%}"),
    "unclassified_fraction": ("not placed", "{:.1%}"),
    "workers": ("workers", "{:.0f}"),
    "servers": ("servers", "{:.0f}"),
    "batch": ("batch", "{:,.0f}"),
    "rate_mbit": ("link, Mbit/s", "{:,.0f}"),
    "host": ("host", "{}"),
    "sent_bytes": ("sent, KiB a step", lambda value: f"{value / 1024:,.1f}"),
    "received_bytes": ("received, KiB a step", lambda value: f"{value / 1024:,.1f}"),
    "sent_ratio": ("sent / theory", "{:.3f}"),
    "received_ratio": ("received / theory", "{:.3f}"),
    "busiest_ratio": ("bytes / theory", "{:.3f}"),
    "wire_s": ("wire needs, ms", lambda value: f"{value * 1e3:,.1f}"),
    "step_ratio": ("step / wire", "{:.2f}"),
    "communication_s": ("transfer, ms", _milliseconds),
    "waiting_s": ("waiting, ms", _milliseconds),
    "single_process_s": ("one process, ms", _milliseconds),
    "subtraction_estimate_s": ("by subtraction, ms", _milliseconds),
    "measured_s": ("measured, ms", _milliseconds),
    "exchange_s": ("exchange, ms", _milliseconds),
    "overlap_s": ("beside backward, ms", _milliseconds),
    "batches_per_s": ("batches/s", "{:,.1f}"),
    "speedup": ("speedup", "{:.2f}"),
    "speedup_low": ("from", "{:.2f}"),
    "speedup_high": ("to", "{:.2f}"),
    "efficiency": ("efficiency", "{:.0%}"),
    "oversubscribed": ("oversubscribed", lambda crowded: "yes" if crowded else ""),
    "target_loss": ("loss", "{:.3f}"),
    "time_s": ("seconds to it", "{:.2f}"),
    "time_low_s": ("from", "{:.2f}"),
    "time_high_s": ("to", "{:.2f}"),
    "examples": ("examples to it", "{:,.0f}"),
    "reached": ("reached it", "{:.0f}"),
    "name": ("process", "{}"),
    "cpu_mean": ("CPU, % of a core", "{:.0f}"),
    "memory_max": ("most memory, MiB", "{:.0f}"),
    "pair": ("pair", lambda name: labels.pair_label(str(name))),
    "description": ("description", "{}"),
    "detected": ("detected", "{}"),
    "replayed": ("replayed to the same weights", "{}"),
    "updates": ("updates", "{:,.0f}"),
    "staleness": ("staleness", "{:.0f}"),
    "fraction": ("fraction", "{:.0%}"),
    "quantity": ("quantity", "{}"),
    "tensor": ("tensor", "{}"),
    "step": ("step", "{:.0f}"),
    "dtype": ("precision", "{}"),
    "distance": ("distance", "{:.1e}"),
    "bound": ("bound", "{:.1e}"),
    "record": ("record", "{}"),
    "spread": ("spread", "{:.1%}"),
    "drift": ("drift", "{:+.2f}"),
    "drift_p": ("p of the drift", "{:.3f}"),
    "warnings": ("warnings", "{}"),
}

#: Columns of text; the others are numbers and stand at the right.
_TEXT_COLUMNS = frozenset(
    {"system", "workload", "status", "reason", "comparable", "name", "pair", "quantity", "tensor"}
    | {"description", "framework", "detected", "replayed"}
    | {"dtype", "record", "fact", "value", "disturbed", "host", "oversubscribed"}
    | {"warnings"}
)


@dataclass(frozen=True)
class Table:
    """A table as text, ready to be shown.

    Attributes
    ----------
    cells
        Strings only.
    text_columns
        Headings of the columns that are set at the left.
    groups
        Headings between the rows, by the number of the row that each stands above.
    measured
        Whether it comes from the records of its page, which its caption then names.
    """

    cells: pd.DataFrame
    text_columns: frozenset[str]
    header: bool = True
    groups: Mapping[int, str] = field(default_factory=dict)
    measured: bool = True

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.cells.to_string(index=False)}

    def html(self) -> str:
        """Write the table as HTML that scrolls by itself where it is too wide."""
        classes = ["hz-left" if name in self.text_columns else "" for name in self.cells.columns]
        head = _html_row("th", list(self.cells.columns), classes) if self.header else ""
        rows = []
        for place, cells in enumerate(self.cells.itertuples(index=False)):
            if place in self.groups:
                rows.append(_html_group_row(self.groups[place], len(classes)))
            rows.append(_html_row("td", list(cells), classes))
        body = "\n".join(rows)
        return (
            f'<div class="hz-table{"" if self.measured else " hz-given"}"><table>\n'
            f"<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
        )


def _html_row(kind: str, cells: list[str], classes: list[str]) -> str:
    parts = [
        f'<{kind} class="{name}">{html.escape(cell)}</{kind}>'
        if name
        else f"<{kind}>{html.escape(cell)}</{kind}>"
        for cell, name in zip(cells, classes, strict=True)
    ]
    return f"<tr>{''.join(parts)}</tr>"


def _html_group_row(heading: str, columns: int) -> str:
    return f'<tr class="hz-group"><th colspan="{columns}">{html.escape(heading)}</th></tr>'


def format_table(frame: pd.DataFrame, columns: list[str] | None = None) -> Table:
    """Write a data frame of `horizont.analysis` for readers.

    Parameters
    ----------
    columns
        Which columns, in which order; nothing takes all. One without any value is left out.
    """
    shown = [
        column
        for column in columns or frame.columns
        if not len(frame) or frame[column].notna().any()
    ]
    headings = [COLUMNS.get(column, (column, "{}"))[0] for column in shown]
    cells = pd.DataFrame(
        {
            place: [_format_cell(column, value) for value in frame[column]]
            for place, column in enumerate(shown)
        }
    )
    cells.columns = pd.Index(headings)
    text = {
        heading for column, heading in zip(shown, headings, strict=True) if column in _TEXT_COLUMNS
    }
    return Table(cells, frozenset(text))


def key_value_table(values: Mapping[str, object]) -> Table:
    """Write named facts as a table of two columns without a heading."""
    rows = {"fact": list(values), "value": ["–" if v is None else str(v) for v in values.values()]}
    return Table(pd.DataFrame(rows), frozenset({"fact", "value"}), header=False)


def text_table(
    frame: pd.DataFrame, numbers: Iterable[str] = (), group_by: str | None = None
) -> Table:
    """Show a data frame of strings.

    Parameters
    ----------
    numbers
        Columns that stand at the right.
    group_by
        A column whose values become headings between the rows.
    """
    groups = {}
    if group_by is not None and len(frame):
        names = list(frame[group_by])
        groups = {
            place: name for place, name in enumerate(names) if [name] != names[place - 1 : place]
        }
        frame = frame.drop(columns=group_by)
    return Table(frame, frozenset(set(frame.columns) - set(numbers)), groups=groups)


def phase_table(phases: pd.DataFrame) -> Table:
    """Write the breakdown with a row a system and a column a part, in milliseconds.

    Parameters
    ----------
    phases
        As of `horizont.analysis.steps`.
    """
    wide = phases.pivot(index="system", columns="phase", values="mean_s") * 1e3
    wide = wide.loc[list(dict.fromkeys(phases["system"])), list(dict.fromkeys(phases["phase"]))]
    wide["step"] = wide.sum(axis="columns", min_count=1)
    cells = wide.map(lambda value: "–" if pd.isna(value) else f"{value:.2f}")
    cells.insert(0, "system", [labels.system_label(str(name)) for name in wide.index])
    first = "milliseconds"
    return Table(cells.rename(columns={"system": first}), frozenset({first}))


def _format_cell(column: str, value: object) -> str:
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    _, form = COLUMNS.get(column, (column, "{}"))
    return form.format(value) if isinstance(form, str) else form(value)
