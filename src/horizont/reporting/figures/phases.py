"""Stacked bars: one part after the other, each in its look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from horizont.analysis.runs import PHASES_AND_OTHER
from horizont.reporting import labels
from horizont.reporting.figures.throughput import (
    ROW_HEIGHT,
    annotate_missing,
    label_rows,
    legend_above,
    row_axes,
)
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    MUTED,
    PHASE_COLOURS,
    PHASE_HATCHES,
    STARTUP_COLOURS,
    book_style,
    grid_axis,
    new_figure,
    operator_class_style,
)


class BarStyle(NamedTuple):
    """How a part is filled."""

    colour: str
    hatch: str | None = None


def phase_style(phase: str) -> BarStyle:
    """Tell the look of a part of a step."""
    return BarStyle(PHASE_COLOURS[phase], PHASE_HATCHES.get(phase))


def stacked_bar(
    axes: Axes, row: float, segments: Iterable[tuple[float, BarStyle]], height: float
) -> float:
    """Draw the pieces of a bar from left to right.

    Parameters
    ----------
    row, height
        Of the bar's middle, and of the bar, in rows.
    pieces
        Widths, in the unit of the axis, with their looks. What has no width is left out.

    Returns
    -------
    float
        Where the bar ends.
    """
    left = 0.0
    for width, look in segments:
        if not width > 0:  # false for NaN
            continue
        axes.barh(
            row,
            width,
            left=left,
            height=height,
            color=look.colour,
            hatch=look.hatch,
            edgecolor=BACKGROUND,
            linewidth=0.8,
        )
        left += width
    return left


def legend_patch(style: BarStyle, label: str) -> Patch:
    """Show a look in a legend."""
    return Patch(facecolor=style.colour, hatch=style.hatch, edgecolor=BACKGROUND, label=label)


_PHASE_BAR_HEIGHT = 0.56


def phase_bars(phases: pd.DataFrame, times: pd.DataFrame, title: str = "") -> Figure:
    """Draw the parts of a worker's step as a stacked bar for each system.

    Bars are built from instrumented steps, the mark with its interval from bare ones: how far
    they lie apart is what looking cost.

    Parameters
    ----------
    phases
        As of `horizont.analysis.steps`.
    times
        As of `horizont.analysis.step_times`; a column ``reason`` tells why a row is empty.
    """
    return stacked_panels({title: (phases, times)})


def stacked_panels(panels: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> Figure:
    """Draw `phase_bars` for several workloads, one below the other.

    Parameters
    ----------
    panels
        Phases and step times by title.
    """
    rows = [times["system"].nunique() for _, times in panels.values()]
    heights = [ROW_HEIGHT * count + 0.45 for count in rows]
    with book_style():
        figure = new_figure(sum(heights) + 0.75)
        drawn = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, (phases, times)) in zip(drawn, panels.items(), strict=True):
            _plot_phase_panel(axes, phases, times)
            axes.set_title(title, pad=8)
        drawn[-1].set_xlabel("milliseconds for one step of a worker")
        shown = pd.concat([phases for phases, _ in panels.values()])
        _phase_legend(figure, set(shown.loc[shown["mean_s"] > 0, "phase"]))
    return figure


def _plot_phase_panel(axes: Axes, phases: pd.DataFrame, times: pd.DataFrame) -> None:
    systems = list(times["system"])
    means = phases.pivot(index="system", columns="phase", values="mean_s") * 1e3
    grid_axis(axes, "x")
    label_rows(axes, systems)
    bare = (times[["timed_s", "timed_high_s"]] * 1e3).max(axis=None)
    longest = np.nanmax([means.sum(axis="columns").max(), bare, 1e-3])
    axes.set_xlim(0, longest * 1.1)
    for row, (_, time) in enumerate(times.iterrows()):
        own = means.loc[time["system"]]
        if own.notna().any():
            _plot_phase_bar(axes, row, own)
        elif time["timed_s"] > 0:
            _plot_total_only(axes, row, time["timed_s"] * 1e3)
        else:
            annotate_missing(axes, row, str(time.get("reason", "")))
        _mark_timed_step(axes, row, time)


def _plot_phase_bar(axes: Axes, row: int, means: pd.Series) -> None:
    """Stack the measured parts and name the others; an overlap is seen in the table."""
    end = stacked_bar(
        axes,
        row,
        [(means[part], phase_style(part)) for part in PHASES_AND_OTHER],
        _PHASE_BAR_HEIGHT,
    )
    missing = [labels.PHASES[part] for part in PHASES_AND_OTHER if np.isnan(means[part])]
    if end and missing and "communication" not in missing:
        _annotate_row(axes, row, "not apart: " + ", ".join(missing))


def _plot_total_only(axes: Axes, row: int, width: float) -> None:
    """Draw an empty outline for a step that was timed but not taken apart."""
    axes.barh(
        row,
        width,
        height=_PHASE_BAR_HEIGHT,
        fill=False,
        edgecolor=MUTED,
        linewidth=1,
        linestyle="--",
    )
    _annotate_row(axes, row, "phases not measured")


def _annotate_row(axes: Axes, row: int, text: str) -> None:
    axes.annotate(
        text,
        (0.0, row + _PHASE_BAR_HEIGHT / 2),
        xytext=(1, -1.5),
        textcoords="offset points",
        va="top",
        color=MUTED,
        style="italic",
        fontsize=7.5,
    )


def _mark_timed_step(axes: Axes, row: int, time: pd.Series) -> None:
    """Mark the bare step and its interval."""
    if not time["timed_s"] > 0:
        return
    low, high = time["timed_low_s"] * 1e3, time["timed_high_s"] * 1e3
    axes.plot([low, high], [row, row], color=FOREGROUND, linewidth=1.4, solid_capstyle="butt")
    for end in (low, high):
        axes.plot([end, end], [row - 0.13, row + 0.13], color=FOREGROUND, linewidth=1.4)
    axes.plot(
        time["timed_s"] * 1e3,
        row,
        "d",
        color=BACKGROUND,
        markeredgecolor=FOREGROUND,
        markersize=6,
        zorder=5,
    )


def _phase_legend(figure: Figure, phases: set[str]) -> None:
    handles: list[Artist] = [
        legend_patch(phase_style(part), labels.PHASES[part])
        for part in PHASES_AND_OTHER
        if part in phases
    ]
    handles.append(
        Line2D([], [], color=FOREGROUND, marker="d", markerfacecolor=BACKGROUND, label="bare step")
    )
    columns = 4
    rows = -(-len(handles) // columns)
    if rows * columns == len(handles):  # columns are filled first, but rows are read
        handles = [handle for start in range(columns) for handle in handles[start::columns]]
    legend_above(figure, handles, columns, columnspacing=1.4)


_STARTUP_BAR_HEIGHT = 0.5


def startup_bars(startup: pd.DataFrame, systems: list[str]) -> Figure:
    """Draw the parts of each system's start-up as a stacked bar.

    Parameters
    ----------
    startup
        As of `horizont.analysis.startup`.
    systems
        All planned systems, also those that never started.
    """
    parts = [str(part) for part in dict.fromkeys(startup["phase"])]
    looks = dict(zip(parts, map(BarStyle, STARTUP_COLOURS * 2), strict=False))
    with book_style():
        figure = new_figure(ROW_HEIGHT * len(systems) + 0.95)
        axes = row_axes(figure, systems)
        for row, system in enumerate(systems):
            own = startup[startup["system"] == system]
            own_looks = [looks[part] for part in own["phase"]]
            pieces = zip(own["mean_s"], own_looks, strict=True)
            if not stacked_bar(axes, row, pieces, _STARTUP_BAR_HEIGHT):
                annotate_missing(axes, row, "did not start")
        axes.set_xlabel("seconds from the start of a process, mean over processes and runs")
        shown = [
            legend_patch(look, labels.STARTUP_PHASES.get(part, part))
            for part, look in looks.items()
        ]
        legend_above(figure, shown, 5)
    return figure


_OPERATOR_BAR_HEIGHT = 0.6


def operator_bars(classes: pd.DataFrame) -> Figure:
    """Draw the classes of operators as a stacked bar for each system.

    Parameters
    ----------
    classes
        As of `horizont.analysis.operator_classes`.
    """
    systems = list(dict.fromkeys(classes["system"]))
    with book_style():
        figure = new_figure(ROW_HEIGHT * len(systems) + 1.75)
        axes = row_axes(figure, systems)
        for row, system in enumerate(systems):
            own = classes[classes["system"] == system]
            looks = own["operator_class"].map(_operator_bar_style)
            stacked_bar(
                axes, row, zip(own["self_s"] * 1e3, looks, strict=True), _OPERATOR_BAR_HEIGHT
            )
        axes.set_xlabel("milliseconds for one step")
        axes.set_xlim(left=0)
        shown = [
            legend_patch(_operator_bar_style(name), name)
            for name in dict.fromkeys(classes["operator_class"])
        ]
        legend_above(figure, shown, 3, columnspacing=1.4)
    return figure


def _operator_bar_style(name: str) -> BarStyle:
    return BarStyle(*operator_class_style(name))


_COMPARISON_BAR_HEIGHT = 0.34
_COMPARISON_ROW_HEIGHT = 0.62

#: Time -> where its bar lies in a system's row, and what stands at its end.
_BAR_OFFSETS = {"published": (-0.19, "published"), "measured": (0.19, "here")}


def published_vs_measured_bars(table: pd.DataFrame) -> Figure:
    """Draw two stacked bars for each system: the published one above, the measured one below.

    Parameters
    ----------
    table
        As of `horizont.analysis.claims.then_and_now`.
    """
    systems = list(dict.fromkeys(table["system"]))
    with book_style():
        figure = new_figure(_COMPARISON_ROW_HEIGHT * len(systems) + 1.2)
        axes = row_axes(figure, systems)
        ends = table.groupby(["system", "origin"])["fraction"].sum()
        longest = float(ends.max()) if len(ends) else 1.0
        axes.set_xlim(0, longest * 1.22)
        axes.axvline(1.0, color=FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        for row, system in enumerate(systems):
            for time in _BAR_OFFSETS:
                own = table[(table["system"] == system) & (table["origin"] == time)]
                _plot_comparison_bar(axes, row, time, own)
        axes.set_xlabel("training time, PyTorch synchronous = 1, then and now each")
        _comparison_legend(figure, set(table.loc[table["fraction"] > 0, "phase"]))
    return figure


def _plot_comparison_bar(axes: Axes, row: int, time: str, own: pd.DataFrame) -> None:
    offset, said = _BAR_OFFSETS[time]
    shares = own.set_index("phase")["fraction"]
    pieces = [
        (float(shares.get(part, 0.0)), BarStyle(PHASE_COLOURS[part])) for part in PHASES_AND_OTHER
    ]
    end = stacked_bar(axes, row + offset, pieces, _COMPARISON_BAR_HEIGHT)
    axes.annotate(
        f"{said}: {end:.2f}" if end else f"{said}: no figure",
        (end, row + offset),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=FOREGROUND if end else MUTED,
        style="normal" if end else "italic",
        fontsize=8,
    )


def _comparison_legend(figure: Figure, phases: set[str]) -> None:
    names = {part: labels.PHASES[part] for part in PHASES_AND_OTHER}
    names["communication"] = "network (waiting included)"
    handles = [
        legend_patch(BarStyle(PHASE_COLOURS[part]), names[part])
        for part in PHASES_AND_OTHER
        if part in phases
    ]
    legend_above(figure, handles, 3, columnspacing=1.4)
