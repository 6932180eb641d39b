"""Tables of data frames: display names, a unit in every heading, a dash for missing values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.reporting import labels
from horizont.reporting.output import TableOutput
from horizont.wording import shorten

_SIGNED_ZERO = re.compile(r"^[-−](?=0[0.,]*( ?%)?$)")

CellFormat = str | Callable[[Any], str]


def format_number(value: float | None, form: str) -> str:
    """Format a number with a proper minus sign, if it does not round to zero; a dash if missing."""
    if value is None or pd.isna(value):
        return "–"
    return unsigned_zero(format(value, form)).replace("-", "−")


def unsigned_zero(text: str) -> str:
    """Return a formatted number, without the sign of one that rounds to zero: `-0.00`."""
    return _SIGNED_ZERO.sub("", text)


def format_ms(value_s: float) -> str:
    """Format seconds as milliseconds with about three digits."""
    value_ms = value_s * 1e3
    digits = 0 if abs(value_ms) >= 100 else 1 if abs(value_ms) >= 10 else 2
    return f"{format_number(value_ms, f',.{digits}f')} ms"


def rate_format(largest: float) -> str:
    """Return the format of rates, with about three digits of the largest of them."""
    return ",.0f" if largest >= 100 else ",.1f" if largest >= 10 else ",.2f"


def format_interval(
    low: float | None, high: float | None, form: str, level: float | None = None
) -> str:
    """Format an interval, with its level; a dash if it is missing."""
    if low is None or pd.isna(low):
        return "–"
    text = f"{format_number(low, form)} to {format_number(high, form)}"
    return text if level is None else f"{text} ({level:.0%})"


def _flag_or_count(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value or "")


def _milliseconds(value_s: float) -> str:
    return f"{value_s * 1e3:.2f}"


#: Column of text -> heading and format of its values.
_TEXT_COLUMNS: dict[str, tuple[str, CellFormat]] = {
    **{
        name: (name, "{}")
        for name in (
            *("status", "comparable", "host", "description", "quantity", "tensor", "record"),
            *("warnings", "note"),
        )
    },
    "system": ("system", lambda name: labels.system_label(str(name))),
    "other_system": ("then faster", lambda name: labels.system_label(str(name))),
    "reason": ("reason", shorten),
    "disturbed": ("disturbed", _flag_or_count),
    "oversubscribed": ("oversubscribed", _flag_or_count),
    "name": ("process", "{}"),
    "pair": ("pair", lambda name: labels.pair_label(str(name))),
    "framework": ("framework", lambda name: labels.framework_label(str(name))),
    "detected": ("detected", lambda value: "yes" if value else "no"),
    "replayed": ("replayed to the same weights", lambda value: "yes" if value else "no"),
    "dtype": ("precision", "{}"),
}

#: Column of numbers -> heading and format of its values.
_NUMBER_COLUMNS: dict[str, tuple[str, CellFormat]] = {
    "block": ("block", lambda number: str(int(number) + 1)),
    "wall_s": ("wall, s", "{:.1f}"),
    "background_cpu": ("other load", "{:.1%}"),
    "final_loss": ("final loss", "{:.3f}"),
    "test_accuracy": ("test accuracy", "{:.1%}"),
    "test_perplexity": ("test perplexity", "{:,.0f}"),
    "low": ("from", "{:,.2f}"),
    "high": ("to", "{:,.2f}"),
    "level": ("level", lambda level: f"{level:.0%}" if level else "–"),
    "ok": ("runs", "{:.0f}"),
    "planned": ("planned", "{:.0f}"),
    **{
        f"{part.replace(' ', '_')}_s": (f"{part}, ms", _milliseconds)
        for part in (
            *("load", "forward", "backward", "update", "outside operators", "remainder"),
            *("instrumented", "profiled", "waiting", "exchange", "measured"),
        )
    },
    "step_s": ("timed step, ms", _milliseconds),
    "timed_s": ("timed step, ms", _milliseconds),
    "ratio": ("ratio", "{:.3f}"),
    "ratio_low": ("from", "{:.3f}"),
    "ratio_high": ("to", "{:.3f}"),
    "timed_without_load_s": ("timed step without load, ms", _milliseconds),
    "profile_ratio": ("profiled / computing", "{:.3f}"),
    "operators_s": ("in operators, ms", _milliseconds),
    "operators_fraction": ("of the step", "{:.0%}"),
    "unclassified_fraction": ("unclassified", "{:.1%}"),
    "workers": ("workers", "{:.0f}"),
    "servers": ("servers", "{:.0f}"),
    "batch": ("batch", "{:,.0f}"),
    "global_batch": ("global batch", "{:,.0f}"),
    "rate_mbit": ("link, Mbit/s", "{:,.0f}"),
    "sent_bytes": ("sent, KiB per step", lambda value: f"{value / 1024:,.1f}"),
    "received_bytes": ("received, KiB per step", lambda value: f"{value / 1024:,.1f}"),
    "sent_ratio": ("sent / theory", "{:.3f}"),
    "received_ratio": ("received / theory", "{:.3f}"),
    "busiest_ratio": ("bytes / theory", "{:.3f}"),
    "wire_s": ("wire time, ms", lambda value: f"{value * 1e3:,.1f}"),
    "step_ratio": ("step / wire", "{:.2f}"),
    "communication_s": ("transfer, ms", _milliseconds),
    "single_process_s": ("one process, ms", _milliseconds),
    "subtraction_estimate_s": ("by subtraction, ms", _milliseconds),
    "overlap_s": ("overlap with backward, ms", _milliseconds),
    "batches_per_s": ("batches/s", "{:,.2f}"),
    "speedup": ("speedup", "{:.2f}"),
    "speedup_low": ("from", "{:.2f}"),
    "speedup_high": ("to", "{:.2f}"),
    "efficiency": ("efficiency", "{:.0%}"),
    "crossover": ("crossover, workers", "{:.1f}"),
    "crossover_low": ("from", "{:.1f}"),
    "crossover_high": ("to", "{:.1f}"),
    "target_loss": ("loss", "{:.3f}"),
    "time_s": ("time to this loss, s", "{:.2f}"),
    "time_low_s": ("from", "{:.2f}"),
    "time_high_s": ("to", "{:.2f}"),
    "examples": ("examples", "{:,.0f}"),
    "reached": ("runs that reached it", "{:.0f}"),
    "cpu_mean": ("CPU, % of a core", "{:.0f}"),
    "memory_max": ("peak memory, MiB", "{:.0f}"),
    "gpu_mean": ("GPU, %", "{:.0f}"),
    "gpu_memory_max": ("peak GPU memory, MiB", "{:.0f}"),
    "updates": ("updates", "{:,.0f}"),
    "staleness": ("staleness", "{:.0f}"),
    "fraction": ("fraction", "{:.0%}"),
    "step": ("step", "{:.0f}"),
    "distance": ("distance", "{:.1e}"),
    "bound": ("bound", "{:.1e}"),
    "spread": ("spread", "{:.1%}"),
    "drift": ("drift", "{:+.2f}"),
    "drift_p": ("p of the drift", "{:.3f}"),
}


def format_table(
    frame: pd.DataFrame, columns: Sequence[str] = (), group_by: str | None = None
) -> TableOutput:
    """Format a data frame of `horizont.analysis`: all or some columns that have any value.

    A column to group by becomes headings between the rows.
    """
    known = _TEXT_COLUMNS | _NUMBER_COLUMNS
    cells: dict[int, list[str]] = {}
    headings: list[str] = []
    text: set[str] = set()
    for column in columns or frame.columns:
        heading, form = known.get(column, (column, "{}"))
        formatted = [_format_cell(value, form) for value in frame[column]]
        if len(frame) and set(formatted) <= {"", "–"}:
            continue
        cells[len(headings)] = formatted
        headings.append(heading)
        if column in _TEXT_COLUMNS:
            text.add(heading)
    # Headings such as `from` may occur twice.
    table = pd.DataFrame(cells).set_axis(headings, axis="columns")
    return _grouped(table, frozenset(text), group_by and known[group_by][0])


def _format_cell(value: object, form: CellFormat) -> str:
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return "–"
    return unsigned_zero(form.format(value) if isinstance(form, str) else form(value))


def text_table(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]],
    numbers: Iterable[str] = (),
    group_by: str | None = None,
    *,
    measured: bool = True,
) -> TableOutput:
    """Build a table of strings; a column to group by becomes headings between the rows.

    Numbers are right-aligned columns, and the values are measured if they come from the records of
    the page.
    """
    frame = pd.DataFrame(rows)
    text = frozenset(set(frame.columns) - set(numbers))
    return _grouped(frame, text, group_by, measured=measured)


def _grouped(
    cells: pd.DataFrame, text: frozenset[str], group_by: str | None, *, measured: bool = True
) -> TableOutput:
    """Build a table in which each run of equal values of a column has one heading."""
    groups = {}
    if group_by is not None and len(cells):
        names = list(cells[group_by])
        groups = {row: name for row, name in enumerate(names) if row == 0 or name != names[row - 1]}
        cells = cells.drop(columns=group_by)
    return TableOutput(cells, text - {group_by}, groups=groups, measured=measured)


def format_wide(wide: pd.DataFrame, heading: str) -> TableOutput:
    """Build a table of milliseconds; the index becomes the first column, with a heading."""
    cells = wide.map(lambda value: "–" if pd.isna(value) else unsigned_zero(f"{value:.2f}"))
    cells.insert(0, heading, list(wide.index))
    return TableOutput(cells.reset_index(drop=True), frozenset({heading}))
