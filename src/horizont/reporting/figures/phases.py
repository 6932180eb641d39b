"""Stacked bars: phases of a step, start-up, published and measured times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from horizont.analysis.claims.judge import REFERENCE, published_vs_measured
from horizont.analysis.runs import PHASES_AND_OTHER, startup_times, systems_of
from horizont.analysis.steps import instrumentation_overhead, phases
from horizont.analysis.throughput import throughput_by_system
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.throughput import interval_description
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_table, format_wide

_PHASE_BAR_HEIGHT = 0.56
_STARTUP_BAR_HEIGHT = 0.5
_COMPARISON_BAR_HEIGHT = 0.34
_COMPARISON_ROW_HEIGHT = 0.62

#: Origin of a time -> the offset of its bar in a system's row, and the label at the bar's end.
_COMPARISON_BARS = {"published": (-0.19, "published"), "measured": (0.19, "here")}


#: Colour and hatch of a bar.
Fill = tuple[str, str | None]


def _phase_fill(phase: str) -> Fill:
    return style.PHASE_COLOURS[phase], style.PHASE_HATCHES.get(phase)


def stacked_bar(
    axes: Axes, row: float, segments: Iterable[tuple[float, Fill]], height: float
) -> float:
    """Plot the segments of a bar from left to right; return the position of its end.

    Parameters
    ----------
    segments
        Width and fill; a segment whose width is zero or NaN is left out.
    height
        In rows.
    """
    left = 0.0
    outline: dict[str, Any] = {"edgecolor": style.BACKGROUND, "linewidth": 0.8}
    for width, (colour, hatch) in segments:
        if width > 0:
            axes.barh(row, width, height, left, color=colour, hatch=hatch, **outline)
            left += width
    return left


def legend_patch(fill: Fill, label: str) -> Patch:
    """Create the legend entry of a fill."""
    colour, hatch = fill
    return Patch(facecolor=colour, hatch=hatch, edgecolor=style.BACKGROUND, label=label)


@figure("phases", title="Phases of a step")
def phase_figure(records: Sequence[Record]) -> Drawing:
    """One training step of a worker by phase. Bars: mean over the instrumented steps, workers and
    runs; “other” is the part of the step outside the phases. Markers: timed steps, {interval}. The
    gap between the end of a bar and its marker is the instrumentation overhead.
    """
    reasons = throughput_by_system(records)[["system", "reason"]]
    times = instrumentation_overhead(records).merge(reasons, on="system")
    breakdown = phases(records)
    plot = phase_panels({"": (breakdown, times)})
    data = pd.concat([breakdown, times])
    return Drawing(plot, data, {"interval": interval_description(records)})


@table("phase_table", title="Phases of a step")
def phase_table(records: Sequence[Record]) -> TableOutput:
    """Build a table of mean milliseconds, one row per system and one column per phase."""
    wide = phases(records).set_index(["system", "phase"])["mean_s"].unstack(sort=False) * 1e3
    wide["step"] = wide.sum(axis="columns", min_count=1)
    return format_wide(wide.rename(index=labels.system_label), "milliseconds")


@table("instrumentation_overhead", title="Instrumentation overhead")
def instrumentation_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of instrumented against timed steps, paired by block."""
    columns = ["system", "timed_s", "instrumented_s", "ratio", "ratio_low", "ratio_high", "level"]
    return format_table(instrumentation_overhead(records), columns)


def phase_panels(panels: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> Figure:
    """Plot a stacked bar per system for one or more titles, below each other.

    Parameters
    ----------
    panels
        By title, the results of `horizont.analysis.steps.phases` and of
        `instrumentation_overhead`, with a column ``reason`` for rows without data.
    """
    heights = [style.ROW_HEIGHT * times["system"].nunique() + 0.45 for _, times in panels.values()]
    plot = style.new_figure(sum(heights) + 0.75)
    all_axes = plot.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, (breakdown, times)) in zip(all_axes, panels.items(), strict=True):
        _plot_phase_panel(axes, breakdown, times)
        _title_at_left_edge(axes, title)
    all_axes[-1].set_xlabel("milliseconds for one step of a worker")
    everything = pd.concat([breakdown for breakdown, _ in panels.values()])
    _phase_legend(plot, set(everything.loc[everything["mean_s"] > 0, "phase"]))
    return plot


def _title_at_left_edge(axes: Axes, title: str) -> None:
    """Set a title that starts at the left edge of the figure, where a long one has space."""
    axes.set_title(" ", pad=8)  # reserves the line
    position = ("figure fraction", "axes fraction")
    text = axes.annotate(
        title, (0.01, 1.0), (0, 8), position, textcoords="offset points", weight="bold"
    )
    text.set_in_layout(False)


def _plot_phase_panel(axes: Axes, breakdown: pd.DataFrame, times: pd.DataFrame) -> None:
    means = breakdown.pivot(index="system", columns="phase", values="mean_s") * 1e3
    style.grid_axis(axes, "x")
    style.label_rows(axes, list(times["system"]))
    longest_timed = (times[["timed_s", "timed_high_s"]] * 1e3).max(axis=None)
    longest = np.nanmax([means.sum(axis="columns").max(), longest_timed, 1e-3])
    axes.set_xlim(0, longest * 1.1)
    for row, (_, time) in enumerate(times.iterrows()):
        own = means.loc[time["system"]]
        if own.notna().any():
            _plot_phases(axes, row, own)
        elif time["timed_s"] > 0:
            _plot_total_only(axes, row, time["timed_s"] * 1e3)
        else:
            style.annotate_missing(axes, row, str(time.get("reason", "")))
        _plot_timed_step(axes, row, time)


def _plot_phases(axes: Axes, row: int, means: pd.Series) -> None:
    """Plot the measured phases, and name those that cannot be measured separately."""
    segments = [(means[phase], _phase_fill(phase)) for phase in PHASES_AND_OTHER]
    end = stacked_bar(axes, row, segments, _PHASE_BAR_HEIGHT)
    missing = [phase for phase in PHASES_AND_OTHER if np.isnan(means[phase])]
    # A system of one process has no communication, which then is no gap in the measurement.
    if end and missing and "communication" not in missing:
        _annotate_below(axes, row, "not separate: " + ", ".join(missing))


def _plot_total_only(axes: Axes, row: int, width: float) -> None:
    """Plot the outline of a step that was timed but not instrumented."""
    outline: dict[str, Any] = {"fill": False, "linewidth": 1, "linestyle": "--"}
    axes.barh(row, width, height=_PHASE_BAR_HEIGHT, edgecolor=style.MUTED, **outline)
    _annotate_below(axes, row, "phases not measured")


def _annotate_below(axes: Axes, row: int, text: str) -> None:
    position = (0.0, row + _PHASE_BAR_HEIGHT / 2)
    font: dict[str, Any] = {"color": style.MUTED, "style": "italic", "fontsize": 7.5}
    style.annotate(axes, text, position, (1, -1.5), va="top", **font)


def _plot_timed_step(axes: Axes, row: int, time: pd.Series) -> None:
    """Plot the marker of the timed step with its interval."""
    if not time["timed_s"] > 0:
        return
    line: dict[str, Any] = {"color": style.FOREGROUND, "linewidth": 1.4}
    ends = (time["timed_low_s"] * 1e3, time["timed_high_s"] * 1e3)
    axes.plot(ends, [row, row], solid_capstyle="butt", **line)
    for end in ends:
        axes.plot([end, end], [row - 0.13, row + 0.13], **line)
    hollow: dict[str, Any] = {"color": style.BACKGROUND, "markeredgecolor": style.FOREGROUND}
    axes.plot(time["timed_s"] * 1e3, row, "d", markersize=6, zorder=5, **hollow)


def _phase_legend(plot: Figure, present: set[str]) -> None:
    handles: list[Artist] = [
        legend_patch(_phase_fill(phase), phase) for phase in PHASES_AND_OTHER if phase in present
    ]
    hollow: dict[str, Any] = {"marker": "d", "markerfacecolor": style.BACKGROUND}
    handles.append(Line2D([], [], color=style.FOREGROUND, label="timed step", **hollow))
    columns = 4
    rows = -(-len(handles) // columns)
    if rows * columns == len(handles):  # Matplotlib fills columns first, but readers read rows
        handles = [handle for start in range(columns) for handle in handles[start::columns]]
    style.legend_above(plot, handles, columns, columnspacing=1.4)


@figure("startup", title="Start-up")
def startup_figure(records: Sequence[Record]) -> Drawing:
    """Start-up, from the start of a process to the end of its first step, in chronological order.
    Throughput does not include it.
    """
    times = startup_times(records)
    systems = systems_of(records)
    phase_names = [str(phase) for phase in dict.fromkeys(times["phase"])]
    colours = dict(zip(phase_names, style.STARTUP_COLOURS, strict=False))
    plot = style.new_figure(style.ROW_HEIGHT * len(systems) + 0.95)
    axes = style.row_axes(plot, systems)
    for row, system in enumerate(systems):
        own = times[times["system"] == system]
        fills = own["phase"].map(lambda phase: (colours[phase], None))
        segments = zip(own["mean_s"], fills, strict=True)
        if not stacked_bar(axes, row, segments, _STARTUP_BAR_HEIGHT):
            style.annotate_missing(axes, row, "did not start")
    axes.set_xlabel("seconds from the start of a process, mean over processes and runs")
    handles = [
        legend_patch((colour, None), labels.STARTUP_PHASES.get(phase, phase))
        for phase, colour in colours.items()
    ]
    style.legend_above(plot, handles, 5)
    return Drawing(plot, times)


@figure("then-now-{workload}", title="Published and measured")
def published_vs_measured_figure(workload: str, records: Sequence[Record]) -> Drawing:
    """{label}: published times (2021, three machines) and times measured here ({experiment}), both
    relative to the system on the axis. Published network times are the difference
    between distributed and single-process training; here, transfer and waiting are measured, and
    the update is separate unless the server makes it.
    """
    times = published_vs_measured(workload, records)
    systems = list(dict.fromkeys(times["system"]))
    plot = style.new_figure(_COMPARISON_ROW_HEIGHT * len(systems) + 1.2)
    axes = style.row_axes(plot, systems)
    ends = times.groupby(["system", "origin"])["fraction"].sum()
    axes.set_xlim(0, (float(ends.max()) if len(ends) else 1.0) * 1.22)
    axes.axvline(1.0, color=style.FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    for row, system in enumerate(systems):
        for origin in _COMPARISON_BARS:
            own = times[(times["system"] == system) & (times["origin"] == origin)]
            _plot_comparison_bar(axes, row, origin, own)
    axes.set_xlabel(f"training time relative to {labels.system_label(REFERENCE)}")
    present = set(times.loc[times["fraction"] > 0, "phase"])
    names = {"communication": "network (including waiting)"}
    handles = [
        legend_patch((style.PHASE_COLOURS[phase], None), names.get(phase, phase))
        for phase in PHASES_AND_OTHER
        if phase in present
    ]
    style.legend_above(plot, handles, 3, columnspacing=1.4)
    values = {
        "workload": workload,
        "label": labels.workload_label_from_name(workload),
        "experiment": records[0].run.experiment if records else "no experiment",
    }
    return Drawing(plot, times, values)


def _plot_comparison_bar(axes: Axes, row: int, origin: str, times: pd.DataFrame) -> None:
    offset, label = _COMPARISON_BARS[origin]
    fractions = times.set_index("phase")["fraction"].reindex(PHASES_AND_OTHER)
    segments = [
        (fractions[phase], (style.PHASE_COLOURS[phase], None)) for phase in PHASES_AND_OTHER
    ]
    end = stacked_bar(axes, row + offset, segments, _COMPARISON_BAR_HEIGHT)
    font: dict[str, Any] = {"color": style.FOREGROUND, "fontsize": 8}
    if not end:
        font |= {"color": style.MUTED, "style": "italic"}
    text = f"{label}: {end:.2f}" if end else f"{label}: no value"
    style.annotate(axes, text, (end, row + offset), (4, 0), **font)
