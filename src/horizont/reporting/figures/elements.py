"""Elements of several figures: rows and panels, bars, markers and legends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.reporting import labels, style


def system_rows(
    systems: Sequence[str], margin: float, row_height: float = style.ROW_HEIGHT
) -> tuple[Figure, Axes]:
    """Create a chart with a row per system; heights are in inches."""
    figure = style.new_figure(row_height * len(systems) + margin)
    axes = figure.subplots()
    style.grid_axis(axes, "x")
    label_rows(axes, systems)
    return figure, axes


def label_rows(axes: Axes, systems: Sequence[str]) -> None:
    """Set the labels of the rows 0, 1, ..., which run from top to bottom."""
    axes.set_ylim(len(systems) - 0.4, -0.6)
    axes.set_yticks(range(len(systems)), labels=map(labels.two_line_label, systems))
    axes.tick_params(axis="y", length=0, pad=6)
    for label in axes.get_yticklabels():
        label.set_linespacing(1.25)


def annotate_missing(axes: Axes, row: int, reason: str) -> None:
    """Annotate a row without data with the reason."""
    text = textwrap.shorten(reason or "not measured", 90, placeholder=" …")
    left = axes.get_yaxis_transform()
    style.annotate(axes, textwrap.fill(text, 52), (0.0, row), (5, 0), xycoords=left, **style.ASIDE)


def panel_grid(
    count: int, columns: int, row_height: float, *, margin: float = 0.6, **sharing: Any
) -> tuple[Figure, list[Axes]]:
    """Create a figure with panels in rows, whose heights are in inches."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = style.new_figure(margin + row_height * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False, **sharing).flat)
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure, panels[:count]


def set_log2_axis(axes: Axes, ticks: Sequence[int]) -> None:
    """Set a horizontal axis of doubling numbers, of workers for example, with labels at some."""
    style.grid_axis(axes, "y")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


def stacked_bar(
    axes: Axes, row: float, segments: Iterable[tuple[float, style.Fill]], height: float
) -> float:
    """Plot the segments of a bar from left to right; return the position of its end.

    A segment whose width is zero or NaN is left out; the height is in rows.
    """
    left = 0.0
    outline: dict[str, Any] = {"edgecolor": style.BACKGROUND, "linewidth": 0.8}
    for width, (colour, hatch) in segments:
        if width > 0:
            axes.barh(row, width, height, left, color=colour, hatch=hatch, **outline)
            left += width
    return left


def empty_bar(axes: Axes, row: float, width: float, height: float) -> None:
    """Plot the outline of a bar whose segments are unknown."""
    outline: dict[str, Any] = {"fill": False, "linewidth": 1, "linestyle": "--"}
    axes.barh(row, width, height, edgecolor=style.MUTED, **outline)


def interval_mark(
    axes: Axes, row: float, value: float, ends: tuple[float, float], size: float
) -> None:
    """Plot a mean as a diamond on the line of its interval."""
    line: dict[str, Any] = {"linewidth": 1.4, "solid_capstyle": "butt"}
    axes.plot(ends, [row, row], color=style.FOREGROUND, **line)
    hollow: dict[str, Any] = {"color": style.BACKGROUND, "markeredgecolor": style.FOREGROUND}
    axes.plot(value, row, "d", markersize=size, zorder=5, **hollow)


def fill_legend(fills: Mapping[str, style.Fill], diamond: str = "") -> list[Artist]:
    """Create the legend entries of labelled fills, and of the diamond, if it has a label."""
    handles: list[Artist] = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=style.BACKGROUND, label=label)
        for label, (colour, hatch) in fills.items()
    ]
    if diamond:
        hollow: dict[str, Any] = {"marker": "d", "markerfacecolor": style.BACKGROUND}
        handles.append(Line2D([], [], color=style.FOREGROUND, label=diamond, **hollow))
    return handles


def plot_points(
    axes: Axes,
    points: pd.DataFrame,
    system: str,
    columns: tuple[str, str],
    *,
    hollow: str,
    size: float,
) -> None:
    """Plot the marker of a system at points, hollow where a column of that name is true."""
    x, y = columns
    colour = style.system_colour(system)
    for is_hollow, own in points.groupby(hollow):
        fill = style.BACKGROUND if is_hollow else colour
        marks: dict[str, Any] = {"color": fill, "markeredgecolor": colour, "markersize": size}
        axes.plot(own[x], own[y], style.system_marker(system), **marks)


def system_legend_line(
    system: str, *, marker: bool = True, line: style.LineStyle | None = None, suffix: str = ""
) -> Line2D:
    """Create the legend entry of a system, with or without its marker."""
    return Line2D(
        [],
        [],
        color=style.system_colour(system),
        linestyle=line or style.line_style(system),
        marker=style.system_marker(system) if marker else None,
        markersize=5,
        label=labels.system_label(system) + suffix,
    )
