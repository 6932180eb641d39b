"""Ten epochs of the 2021 study: published and extrapolated times, and how good these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from horizont.analysis.ten_epochs import (
    PARTS,
    extrapolation_errors,
    has_ten_epochs,
    steps_of_ten_epochs,
    ten_epochs,
)
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.phases import legend_patch, stacked_bar
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_interval, format_number, text_table

_ROW_HEIGHT = 0.66
_BAR_HEIGHT = 0.36

#: Origin of a bar -> its offset in a system's row, the label at its end, and the label of no bar.
_BARS = {
    "published": (-0.2, "2021", "2021: not published"),
    "measured": (0.2, "here", "here: not measured"),
}

_COLOURS = {**style.PHASE_COLOURS, "network": style.PHASE_COLOURS["communication"]}
_PART_LABELS = {"network": "network (with waiting)"}
_ORIGIN_LABELS = {
    "published": "published, 2021",
    "measured": "measured here",
    "subtraction": "here, by subtraction",
}


def _is_comparable(records: Sequence[Record]) -> bool:
    """Whether a distributed system of the published set-up was run."""
    return any(
        record.ok and not record.run.system.is_local and steps_of_ten_epochs(record) > 0
        for record in records
    )


@figure(
    "ten-epochs-{workload}",
    title="Ten epochs, then and now",
    text="The study of 2021 published the **seconds of ten epochs** on three machines, by phase. "
    "The times of this machine are **extrapolated**: a worker's mean step, times the steps of a "
    "worker in those ten epochs. The published *network* is the total less that of a single "
    "process; here, it is measured: transfer and waiting for other workers. Start-up is not "
    "included.",
    needs=_is_comparable,
)
def ten_epochs_figure(records: Sequence[Record]) -> Drawing:
    """{label}: ten epochs, {count:,.0f} steps of {batch} images a worker. Above: published in 2021
    (three machines); below: here ({workers} workers), extrapolated from {steps} timed steps in each
    block. The bars here are means of the instrumented steps; diamond and label are the mean of the
    timed steps, with its 95% interval over {blocks} blocks.
    """
    times = ten_epochs(records)
    systems = list(dict.fromkeys(times["system"]))
    plot = style.new_figure(_ROW_HEIGHT * len(systems) + 1.15)
    axes = style.row_axes(plot, systems)
    parts = times[[f"{part}_s" for part in PARTS]]
    longest_s = max(parts.sum(axis="columns").max(), times["total_s"].max())
    # The interval of two blocks may be much longer than all bars.
    limit_s = min(1.3 * longest_s, np.fmax(longest_s, times["high_s"].max()))
    axes.set_xlim(0, limit_s * 1.24)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    by_origin = times.set_index(["system", "origin"])
    for row, system in enumerate(systems):
        for origin in _BARS:
            key = (system, origin)
            own = by_origin.loc[key] if key in by_origin.index else None
            _plot_bar(axes, row, origin, own, limit_s)
    axes.set_xlabel("seconds of ten epochs")
    present = [part for part in PARTS if parts[f"{part}_s"].gt(0).any()]
    handles: list[Artist] = [
        legend_patch((_COLOURS[part], None), _PART_LABELS.get(part, part)) for part in present
    ]
    hollow: dict[str, Any] = {"marker": "d", "markerfacecolor": style.BACKGROUND}
    handles.append(Line2D([], [], color=style.FOREGROUND, label="timed steps", **hollow))
    style.legend_above(plot, handles, 4, columnspacing=1.4)
    first = next(r for r in records if not r.run.system.is_local)
    run = first.run
    values = {
        "workload": run.workload_name,
        "label": labels.workload_label_from_name(run.workload_name),
        "count": steps_of_ten_epochs(first),
        "batch": run.local_batch,
        "workers": run.topology.workers,
        "steps": run.steps.timed,
        "blocks": f"{times['blocks'].max():.0f}",
    }
    return Drawing(plot, times, values)


def _plot_bar(axes: Axes, row: int, origin: str, times: pd.Series | None, limit_s: float) -> None:
    """Plot a bar and its total; an interval beyond the limit ends there, with an arrow."""
    offset, label, missing = _BARS[origin]
    y = row + offset
    if times is None:
        font: dict[str, Any] = {"color": style.MUTED, "style": "italic", "fontsize": 8}
        style.annotate(axes, missing, (0, y), (4, 0), **font)
        return
    segments = [(times[f"{part}_s"], (_COLOURS[part], None)) for part in PARTS]
    end_s = stacked_bar(axes, y, segments, _BAR_HEIGHT)
    if not end_s:
        outline: dict[str, Any] = {"fill": False, "edgecolor": style.MUTED, "linestyle": "--"}
        axes.barh(y, times["total_s"], _BAR_HEIGHT, linewidth=1, **outline)
    if origin == "measured":
        line: dict[str, Any] = {"color": style.FOREGROUND, "linewidth": 1.4}
        high_s = min(times["high_s"], limit_s)
        axes.plot([times["low_s"], high_s], [y, y], solid_capstyle="butt", **line)
        if times["high_s"] > limit_s:
            axes.plot(limit_s, y, ">", color=style.FOREGROUND, markersize=4)
        hollow: dict[str, Any] = {"color": style.BACKGROUND, "markeredgecolor": style.FOREGROUND}
        axes.plot(times["total_s"], y, "d", markersize=5.5, zorder=5, **hollow)
        end_s = np.fmax(max(end_s, times["total_s"]), high_s)
    style.annotate(axes, f"{label}: {_seconds(times['total_s'])} s", (end_s, y), (6, 0), fontsize=8)


@table(
    "ten_epochs",
    title="Ten epochs: published, measured, by subtraction",
    needs=_is_comparable,
)
def ten_epochs_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the seconds of ten epochs, grouped by system."""
    rows = [_row(row) for row in ten_epochs(records).to_dict("records")]
    numbers = set(rows[0]) - {"system", "seconds of ten epochs"}
    return text_table(rows, numbers, group_by="system")


def _row(times: Mapping[Any, Any]) -> dict[str, str]:
    rest = pd.Series([times["update_s"], times["other_s"]], dtype=float).sum(min_count=1)
    is_measured = times["origin"] == "measured"
    return {
        "system": labels.system_label(times["system"]),
        "seconds of ten epochs": _ORIGIN_LABELS[times["origin"]],
        "total": _seconds(times["total_s"]),
        "95% interval": _interval(times) if is_measured else "–",
        **{part: _seconds(times[f"{part}_s"]) for part in PARTS[:4]},
        "update, other": _seconds(rest),
        "start-up": _seconds(times["startup_s"]),
        "from steps": f"{times['blocks']:.0f} × {times['steps']:,.0f}" if is_measured else "–",
    }


def _seconds(value_s: float) -> str:
    return format_number(value_s, ",.0f" if abs(value_s) >= 1000 else ".1f")


def _interval(times: Mapping[Any, Any]) -> str:
    return format_interval(
        times["low_s"], times["high_s"], ",.0f" if times["low_s"] >= 1000 else ".1f"
    )


def _is_checkable(records: Sequence[Record]) -> bool:
    """Whether ten epochs were run; then reading the others is worth its time."""
    return any(map(has_ten_epochs, records)) and not extrapolation_errors(records).empty


@table(
    "extrapolation",
    title="Ten epochs, extrapolated and run",
    text="The seconds of ten epochs are extrapolated from few steps. Where ten epochs were run, on "
    "the same system and hosts, the table compares the extrapolation with the seconds of the same "
    "number of timed steps.",
    needs=_is_checkable,
)
def extrapolation_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of ten epochs, extrapolated beside run, by workload."""
    rows = [
        {
            "workload": labels.workload_label_from_name(row["workload"]),
            "system": labels.system_label(row["system"]),
            "from": row["experiment"],
            "steps": f"{row['blocks']} × {row['steps']:,}",
            "extrapolated, s": _seconds(row["extrapolated_s"]),
            "95% interval": _interval(row),
            "steps run": f"{row['long_blocks']} × {row['long_steps']:,}",
            "measured, s": _seconds(row["measured_s"]),
            "error": format_number(row["error"], "+.1%"),
        }
        for row in extrapolation_errors(records).to_dict("records")
    ]
    return text_table(rows, set(rows[0]) - {"workload", "system", "from"}, group_by="workload")
