"""Throughput by system, and by number of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.analysis.scaling import is_strong_scaling, scaling
from horizont.analysis.throughput import throughput_by_run, throughput_by_system
from horizont.records.record import Record
from horizont.reporting import style
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_table


@figure("throughput", title="Throughput")
def throughput_figure(records: Sequence[Record]) -> Drawing:
    """Training throughput, from timed steps while all workers were training. Large markers:
    {interval}; short strokes: single runs. Filled markers: single-process and synchronous systems;
    hollow markers: asynchronous systems.
    """
    import seaborn as sns

    runs, estimates = throughput_by_run(records), throughput_by_system(records)
    systems = list(estimates["system"])
    rows = {system: row for row, system in enumerate(systems)}
    plot = style.new_figure(style.ROW_HEIGHT * len(systems) + 0.6)
    axes = style.row_axes(plot, systems)
    highest = np.nanmax([runs["examples_per_s"].max(), estimates["high"].max(), 0.0])
    axes.set_xlim(0, highest * 1.15 or 1.0)
    sns.scatterplot(
        runs.assign(row=runs["system"].map(rows) + 0.22),
        x="examples_per_s",
        y="row",
        hue="system",
        palette={system: style.system_colour(system) for system in systems},
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
    data = pd.concat([runs, estimates])
    return Drawing(plot, data, {"interval": interval_description(records)})


def interval_description(records: Sequence[Record]) -> str:
    """Return what the intervals of an experiment are."""
    level = throughput_by_system(records)["level"].max()
    blocks = len({record.run.block for record in records})
    runs = f"median of {blocks} runs" if blocks > 1 else "a single run"
    return f"{runs} with a {level:.0%} interval" if level > 0 else runs


def _plot_estimate(axes: Axes, row: int, estimate: pd.Series) -> None:
    rate, system = estimate["examples_per_s"], estimate["system"]
    if not rate > 0:
        style.annotate_missing(axes, row, estimate["reason"])
        return
    axes.plot([0, rate], [row, row], color=style.system_colour(system), alpha=0.35, linewidth=3)
    interval = [estimate["low"], estimate["high"]]
    axes.plot(interval, [row, row], color=style.FOREGROUND, linewidth=1.8)
    axes.plot(rate, row, markeredgewidth=1.8, markersize=8, **style.marker_style(system))
    style.annotate(axes, f"{rate:,.0f}", (rate, row), (0, 7), ha="center", va="bottom")


def _varies_in_workers(records: Sequence[Record]) -> bool:
    """Whether some system ran with several numbers of workers."""
    topologies = {(record.run.system.name, record.run.topology.workers) for record in records}
    return len(topologies) > len({system for system, _ in topologies})


@figure("scaling", title="Throughput and speedup", needs=_varies_in_workers)
def scaling_figure(records: Sequence[Record]) -> Drawing:
    """Throughput of all workers together (above) and speedup over one worker (below; dotted: the
    ideal), medians over the runs with their intervals. A hollow marker: the hosts together request
    more CPU time than the machine has, so that they compete for it.
    """
    points = scaling(records)
    if points.empty:
        return no_drawing("no run succeeded")
    is_strong = is_strong_scaling([record.run for record in records])
    curves = list(zip(points["system"], points["servers"], strict=True))
    points = points.assign(curve=pd.Series(curves, points.index))
    # Line styles stand for the number of servers if it varies, else for the system.
    servers_vary = points.loc[points["servers"] > 0, "servers"].nunique() > 1
    styles: dict[tuple[str, int], style.LineStyle] = {
        (system, servers): ("-" if servers <= 1 else "--")
        if servers_vary
        else style.line_style(system)
        for system, servers in dict.fromkeys(curves)
    }
    batches, workers = sorted(points["batch"].unique()), sorted(points["workers"].unique())
    plot = style.new_figure(5.0)
    panels = plot.subplots(2, len(batches), squeeze=False, sharex=True, sharey="row")
    for (upper, lower), batch in zip(panels.T, batches, strict=True):
        own = points[points["batch"] == batch]
        upper.set_title(f"{'global batch' if is_strong else 'batch per worker'}: {batch:,}")
        _plot_scaling_curves(upper, own, styles, ("examples_per_s", "low", "high"))
        _plot_scaling_curves(lower, own, styles, ("speedup", "speedup_low", "speedup_high"))
        ideal = np.sort(own["workers"].unique())
        lower.plot(ideal, ideal, color=style.FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)))
        lower.set_xlabel("workers")
    panels[0, 0].set_ylabel("examples per second")
    panels[0, 0].yaxis.set_major_formatter("{x:,.0f}")
    panels[1, 0].set_ylabel("speedup")
    for axes in panels.flat:
        style.grid_axis(axes, "y")
        axes.set_ylim(bottom=0)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(workers))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:.0f}")
    handles = []
    for (system, servers), line in styles.items():
        count = f", {servers} server{'s' if servers > 1 else ''}"
        suffix = count if servers_vary and servers > 0 else ""
        handles.append(style.system_legend_line(system, marker=True, style=line, suffix=suffix))
    style.legend_above(plot, handles, 2, handlelength=2.4)
    return Drawing(plot, points.drop(columns="curve"))


@table("scaling_table", title="Scaling", needs=_varies_in_workers)
def scaling_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of throughput, speedup and efficiency by number of workers."""
    columns = ["system", "servers", "batch", "workers", "batches_per_s", "examples_per_s"]
    columns += ["low", "high", "speedup", "efficiency", "oversubscribed", "reason"]
    return format_table(scaling(records), columns)


def _plot_scaling_curves(
    axes: Axes,
    points: pd.DataFrame,
    styles: Mapping[tuple[str, int], style.LineStyle],
    columns: tuple[str, str, str],
) -> None:
    """Plot a quantity, of which the columns are the value and the ends of its interval."""
    import seaborn as sns

    value, low, high = columns
    colours = {curve: style.system_colour(curve[0]) for curve in styles}
    sns.lineplot(
        points,
        x="workers",
        y=value,
        hue="curve",
        style="curve",
        palette=colours,
        dashes={curve: style.DASHES[line] for curve, line in styles.items()},
        errorbar=None,
        linewidth=1.2,
        legend=False,
        ax=axes,
    )
    for _, point in points.iterrows():
        workers, colour = point["workers"], colours[point["curve"]]
        axes.vlines(workers, point[low], point[high], color=colour, linewidth=1)
        axes.plot(
            workers,
            point[value],
            style.system_marker(point["system"]),
            color=style.BACKGROUND if point["oversubscribed"] else colour,
            markeredgecolor=colour,
            markersize=5,
        )
