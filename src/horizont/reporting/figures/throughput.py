"""The rows of a chart by system: names at the left, reasons where there is nothing to draw."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from horizont.reporting import labels
from horizont.reporting.style import (
    FOREGROUND,
    framework_marker,
    MUTED,
    LineStyle,
    book_style,
    grid_axis,
    line_style,
    marker_style,
    new_figure,
    system_colour,
)

#: Height of a row in inches.
ROW_HEIGHT = 0.52
#: A logarithmic axis whose ends are farther apart than by this factor names powers of ten only.
MAX_SPAN_FOR_DENSE_TICKS = 100


def row_axes(figure: Figure, systems: Sequence[str]) -> Axes:
    """Make the one panel of a chart with a row for each system."""
    axes = figure.subplots()
    grid_axis(axes, "x")
    label_rows(axes, systems)
    return axes


def message_figure(text: str) -> Figure:
    """Write a sentence where there is nothing to draw."""
    with book_style():
        figure = new_figure(0.8)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.text(0.5, 0.5, text, ha="center", va="center", color=MUTED, style="italic")
    return figure


def label_rows(axes: Axes, systems: Sequence[str]) -> None:
    """Write the names of systems beside the rows 0, 1, ... from the top down."""
    axes.set_ylim(len(systems) - 0.4, -0.6)
    axes.set_yticks(np.arange(len(systems)), labels=[_row_label(system) for system in systems])
    axes.tick_params(axis="y", length=0, pad=6)
    for label in axes.get_yticklabels():
        label.set_linespacing(1.25)


def set_log_scale(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Make an axis logarithmic; its few numbers are written out and do not touch.

    To be called when everything is drawn, since the range decides which numbers are named.
    """
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    own: Axis = axes.xaxis if axis == "x" else axes.yaxis
    low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
    own.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high < MAX_SPAN_FOR_DENSE_TICKS * low else (1.0,))
    )
    own.set_major_formatter("{x:,g}")
    own.set_minor_formatter(NullFormatter())


def _row_label(system: str) -> str:
    return f"{labels.framework_label(labels.framework_of(system))}\n{labels.synchronisation_label(system)}"


def annotate_missing(axes: Axes, row: int, reason: str) -> None:
    """Write into an empty row why there is nothing to see."""
    text = textwrap.shorten(reason or "not measured", 90, placeholder=" …")
    axes.annotate(
        textwrap.fill(text, 52),
        (0.0, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        color=MUTED,
        style="italic",
        fontsize=8.5,
    )


def legend_above(figure: Figure, handles: Sequence[Artist], columns: int, **spacing: float) -> None:
    """Write a legend above all panels of a figure."""
    figure.legend(handles=list(handles), loc="outside upper left", ncols=columns, **spacing)


def system_legend_line(
    system: str, with_marker: bool, line_style_override: LineStyle | None = None, suffix: str = ""
) -> Line2D:
    """Show the line of a system.

    Parameters
    ----------
    marked
        Whether its points carry the mark of the framework.
    dash
        The kind of line, if it is not the system's own.
    note
        What follows its name.
    """
    mark = framework_marker(labels.framework_of(system)) if with_marker else None
    return Line2D(
        [],
        [],
        color=system_colour(system),
        linestyle=line_style_override or line_style(system),
        marker=mark,
        markersize=5,
        label=labels.system_label(system) + suffix,
    )


def throughput_dots(runs: pd.DataFrame, estimates: pd.DataFrame) -> Figure:
    """Draw the median of each system with its interval, over the dots of its runs.

    Parameters
    ----------
    runs
        As of `horizont.analysis.run_throughput`.
    estimates
        As of `horizont.analysis.throughput`.
    """
    systems = list(estimates["system"])
    with book_style():
        figure = new_figure(ROW_HEIGHT * len(systems) + 0.6)
        axes = row_axes(figure, systems)
        known = [runs["examples_per_s"].max(), estimates["high"].max()]
        axes.set_xlim(0, max([value for value in known if value > 0], default=1.0) * 1.15)
        for row, (_, estimate) in enumerate(estimates.iterrows()):
            own = runs.loc[runs["system"] == estimate["system"], "examples_per_s"]
            _plot_throughput_row(axes, row, estimate, own)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("examples per second, all workers together (longer is better)")
    return figure


def _plot_throughput_row(axes: Axes, row: int, estimate: pd.Series, runs: pd.Series) -> None:
    if not estimate["examples_per_s"] > 0:
        annotate_missing(axes, row, estimate["reason"])
        return
    colour = system_colour(estimate["system"])
    axes.plot([0, estimate["examples_per_s"]], [row, row], color=colour, alpha=0.35, linewidth=3)
    axes.plot(runs, [row + 0.22] * len(runs), "|", color=colour, markersize=7, markeredgewidth=1.2)
    axes.plot(
        [estimate["low"], estimate["high"]], [row, row], color=FOREGROUND, linewidth=1.8, zorder=4
    )
    axes.plot(
        estimate["examples_per_s"],
        row,
        markeredgewidth=1.8,
        markersize=8,
        **marker_style(estimate["system"]),
    )
    axes.annotate(
        f"{estimate['examples_per_s']:,.0f}",
        (estimate["examples_per_s"], row),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8.5,
    )
