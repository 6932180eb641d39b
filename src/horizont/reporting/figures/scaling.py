"""Throughput and speedup by number of workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.analysis.scaling import is_strong_scaling, scaling
from horizont.records.record import Record
from horizont.reporting.figures.learning import DASHES
from horizont.reporting.figures.throughput import legend_above, system_legend_line
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    LineStyle,
    book_style,
    grid_axis,
    line_style,
    message_figure,
    new_figure,
    system_colour,
    system_marker,
)
from horizont.reporting.tables import format_table


def _varies_in_workers(records: Sequence[Record]) -> bool:
    """Whether some system ran with several numbers of workers."""
    workers: dict[str, set[int]] = {}
    for record in records:
        workers.setdefault(record.run.system.name, set()).add(record.run.topology.workers)
    return any(len(counts) > 1 for counts in workers.values())


@figure("scaling", title="Throughput and speedup", needs=_varies_in_workers)
def scaling_figure(records: Sequence[Record]) -> Drawing:
    """Throughput of all workers together (above) and speedup over one worker (below; dotted: the
    ideal), medians over the runs with their intervals. A hollow marker: the hosts together request
    more CPU time than the machine has, so that they compete for it.
    """
    points = scaling(records)
    strong = is_strong_scaling([record.run for record in records])
    return Drawing(scaling_chart(points, strong=strong), points)


@table("scaling_table", title="Scaling", needs=_varies_in_workers)
def scaling_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of throughput, speedup and efficiency by number of workers."""
    columns = ["system", "servers", "batch", "workers", "batches_per_s", "examples_per_s"]
    columns += ["low", "high", "speedup", "efficiency", "oversubscribed", "reason"]
    return format_table(scaling(records), columns)


def scaling_chart(points: pd.DataFrame, *, strong: bool) -> Figure:
    """Plot throughput (above) and speedup (below), one column per batch.

    Parameters
    ----------
    strong
        Whether the batch is the global one, rather than that of each worker.
    """
    if points.empty:
        return message_figure("no run succeeded")
    batches = sorted(points["batch"].unique())
    with book_style():
        plot = new_figure(5.0)
        panels = plot.subplots(2, len(batches), squeeze=False, sharex=True, sharey="row")
        for (upper, lower), batch in zip(panels.T, batches, strict=True):
            own = points[points["batch"] == batch]
            upper.set_title(f"{'global batch' if strong else 'batch per worker'}: {batch:,}")
            _plot_scaling_curves(upper, own, "examples_per_s", "low", "high")
            _plot_scaling_curves(lower, own, "speedup", "speedup_low", "speedup_high")
            workers = np.sort(own["workers"].unique())
            lower.plot(workers, workers, color=FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)))
            lower.set_xlabel("workers")
        panels[0, 0].set_ylabel("examples per second")
        panels[0, 0].yaxis.set_major_formatter("{x:,.0f}")
        panels[1, 0].set_ylabel("speedup")
        for axes in panels.flat:
            _format_worker_axis(axes, sorted(points["workers"].unique()))
        _scaling_legend(plot, points)
    return plot


def _plot_scaling_curves(axes: Axes, points: pd.DataFrame, value: str, low: str, high: str) -> None:
    import seaborn as sns

    curves = points.assign(curve=[f"{row.system} {row.servers}" for row in points.itertuples()])
    first = curves.drop_duplicates("curve").set_index("curve")
    styles = {
        curve: DASHES[_scaling_line_style(str(row["system"]), int(row["servers"]), points)]
        for curve, row in first.iterrows()
    }
    colours = {curve: system_colour(system) for curve, system in first["system"].items()}
    sns.lineplot(
        curves,
        x="workers",
        y=value,
        hue="curve",
        style="curve",
        palette=colours,
        dashes=styles,
        errorbar=None,
        linewidth=1.2,
        legend=False,
        ax=axes,
    )
    for _, point in curves.iterrows():
        colour = colours[point["curve"]]
        axes.vlines(point["workers"], point[low], point[high], color=colour, linewidth=1)
        axes.plot(
            point["workers"],
            point[value],
            system_marker(str(point["system"])),
            color=BACKGROUND if point["oversubscribed"] else colour,
            markeredgecolor=colour,
            markersize=5,
        )


def _scaling_line_style(system: str, servers: int, points: pd.DataFrame) -> LineStyle:
    """Return a line style by the number of servers if it varies, else by system."""
    if points.loc[points["servers"] > 0, "servers"].nunique() > 1:
        return "-" if servers <= 1 else "--"
    return line_style(system)


def _format_worker_axis(axes: Axes, workers: Sequence[int]) -> None:
    grid_axis(axes, "y")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(workers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


def _scaling_legend(plot: Figure, points: pd.DataFrame) -> None:
    curves = points.drop_duplicates(["system", "servers"])
    servers_vary = curves.loc[curves["servers"] > 0, "servers"].nunique() > 1
    handles = []
    for system, servers in zip(curves["system"], curves["servers"], strict=True):
        count = f", {servers} server{'s' if servers > 1 else ''}"
        style = _scaling_line_style(system, servers, points)
        suffix = count if servers_vary and servers > 0 else ""
        handles.append(system_legend_line(system, marker=True, style=style, suffix=suffix))
    legend_above(plot, handles, 2, handlelength=2.4)
