"""Throughput by system; rows, legends and axes that figures share."""

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

from horizont.analysis.throughput import throughput_by_run, throughput_by_system
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.registry import Drawing, figure
from horizont.reporting.style import (
    FOREGROUND,
    MUTED,
    LineStyle,
    book_style,
    grid_axis,
    line_style,
    marker_style,
    new_figure,
    system_colour,
    system_marker,
)

#: Height of a row in inches.
ROW_HEIGHT = 0.52

#: A logarithmic axis with a larger ratio of its limits has labels at powers of ten only.
MAX_SPAN_FOR_DENSE_TICKS = 100


@figure("throughput", title="Throughput")
def throughput_figure(records: Sequence[Record]) -> Drawing:
    """Training throughput, from timed steps while all workers were training. Large markers:
    {interval}; short strokes: single runs. A filled marker stands for a system whose workers wait
    for each other at every step, a hollow one for one whose workers do not.
    """
    runs, estimates = throughput_by_run(records), throughput_by_system(records)
    plot = throughput_chart(runs, estimates)
    data = pd.concat([runs, estimates])
    return Drawing(plot, data, {"interval": interval_description(records)})


def interval_description(records: Sequence[Record]) -> str:
    """Return what the intervals of an experiment are."""
    level = throughput_by_system(records)["level"].max()
    blocks = len({record.run.block for record in records})
    runs = f"median of {blocks} runs" if blocks > 1 else "a single run"
    return f"{runs} with a {level:.0%} interval" if level > 0 else runs


def throughput_chart(runs: pd.DataFrame, estimates: pd.DataFrame) -> Figure:
    """Plot the estimate of each system with its interval, over the throughput of its runs."""
    import seaborn as sns

    systems = list(estimates["system"])
    rows = {system: row for row, system in enumerate(systems)}
    with book_style():
        plot = new_figure(ROW_HEIGHT * len(systems) + 0.6)
        axes = row_axes(plot, systems)
        highest = np.nanmax([runs["examples_per_s"].max(), estimates["high"].max(), 0.0])
        axes.set_xlim(0, highest * 1.15 or 1.0)
        sns.scatterplot(
            runs.assign(row=runs["system"].map(rows) + 0.22),
            x="examples_per_s",
            y="row",
            hue="system",
            palette={system: system_colour(system) for system in systems},
            marker="|",
            s=50,
            linewidth=1.2,
            legend=False,
            ax=axes,
        )
        for row, (_, estimate) in enumerate(estimates.iterrows()):
            _plot_estimate(axes, row, estimate)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("examples per second, all workers together (longer is better)")
        axes.set_ylabel("")
    return plot


def _plot_estimate(axes: Axes, row: int, estimate: pd.Series) -> None:
    rate = estimate["examples_per_s"]
    if not rate > 0:
        annotate_missing(axes, row, estimate["reason"])
        return
    colour = system_colour(estimate["system"])
    axes.plot([0, rate], [row, row], color=colour, alpha=0.35, linewidth=3)
    axes.plot([estimate["low"], estimate["high"]], [row, row], color=FOREGROUND, linewidth=1.8)
    style = marker_style(estimate["system"])
    axes.plot(rate, row, markeredgewidth=1.8, markersize=8, **style)
    axes.annotate(
        f"{rate:,.0f}",
        (rate, row),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8.5,
    )


def row_axes(plot: Figure, systems: Sequence[str]) -> Axes:
    """Create the axes of a chart with a row per system."""
    axes = plot.subplots()
    grid_axis(axes, "x")
    label_rows(axes, systems)
    return axes


def label_rows(axes: Axes, systems: Sequence[str]) -> None:
    """Set the labels of the rows 0, 1, ..., which run from top to bottom."""
    axes.set_ylim(len(systems) - 0.4, -0.6)
    names = [labels.two_line_label(system) for system in systems]
    axes.set_yticks(np.arange(len(systems)), labels=names)
    axes.tick_params(axis="y", length=0, pad=6)
    for label in axes.get_yticklabels():
        label.set_linespacing(1.25)


def annotate_missing(axes: Axes, row: int, reason: str) -> None:
    """Annotate a row without data with the reason."""
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


def set_log_scale(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Set a logarithmic scale with few labels, which do not overlap.

    To be called after plotting, since the limits of the axis decide which ticks are labelled.
    """
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    scaled: Axis = axes.xaxis if axis == "x" else axes.yaxis
    low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
    is_dense = high < MAX_SPAN_FOR_DENSE_TICKS * low
    scaled.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_dense else (1.0,)))
    scaled.set_major_formatter("{x:,g}")
    scaled.set_minor_formatter(NullFormatter())


def legend_above(plot: Figure, handles: Sequence[Artist], columns: int, **spacing: float) -> None:
    """Add a legend above all axes of a figure."""
    plot.legend(handles=list(handles), loc="outside upper left", ncols=columns, **spacing)


def system_legend_line(
    system: str, *, marker: bool, style: LineStyle | None = None, suffix: str = ""
) -> Line2D:
    """Create the legend entry of a system, with or without its marker."""
    return Line2D(
        [],
        [],
        color=system_colour(system),
        linestyle=style or line_style(system),
        marker=system_marker(system) if marker else None,
        markersize=5,
        label=labels.system_label(system) + suffix,
    )
