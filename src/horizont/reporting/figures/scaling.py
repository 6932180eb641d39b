"""Throughput, speed-up and training time by number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.analysis.scaling import (
    crossovers,
    is_strong_scaling,
    published_training_times,
    scaling,
)
from horizont.records.record import Record
from horizont.reporting import style
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_table

#: What markers and intervals are, in captions.
_INTERVALS = (
    "Markers and bars: means of the logarithms over the runs, medians from six runs on, with 95% "
    "intervals. Hollow markers: the hosts together request more CPU time than the machine has, so "
    "that they compete for it"
)

_IDEAL: dict[str, Any] = {"linewidth": 1, "linestyle": (0, (1, 2))}


def _is_sweep_over_workers(records: Sequence[Record]) -> bool:
    """Whether some system ran with several numbers of workers, and in no other settings."""
    topologies = {(record.run.system.name, record.run.topology.workers) for record in records}
    return len(topologies) > len({name for name, _ in topologies}) and _is_one_setting(records)


def _is_one_setting(records: Sequence[Record]) -> bool:
    """Whether records differ in parts of a scaling curve only, and none was slowed by recording."""
    if any(record.run.record_updates != "none" for record in records):
        return False
    settings = {
        (
            *(record.run.workload.model_dump_json(), record.run.input, topology.link),
            *(topology.threads, topology.hosts, topology.cpus_per_host),
        )
        for record in records
        for topology in [record.run.topology]
    }
    return len(settings) == 1


@figure("scaling", title="Throughput and speedup", needs=_is_sweep_over_workers)
def scaling_figure(records: Sequence[Record]) -> Drawing:
    """Batches per second of all workers together (above) and, where one was measured, speedup over
    a single worker (below). Dotted: ideal scaling from one worker. {intervals}.
    """
    points = scaling(records)
    if points["batches_per_s"].isna().all():
        return no_drawing("no run succeeded")
    kind = "global batch" if is_strong_scaling([r.run for r in records]) else "batch per worker"
    batches = sorted(points["batch"].unique())
    rows = 2 if points["speedup"].notna().any() else 1
    plot = style.new_figure(0.6 + 2.4 * rows)
    panels = plot.subplots(rows, len(batches), squeeze=False, sharex=True, sharey="row")
    for (upper, *lower), batch in zip(panels.T, batches, strict=True):
        own = points[points["batch"] == batch]
        upper.set_title(f"{kind}: {batch:,}")
        ideal = np.geomspace(own["workers"].min(), own["workers"].max())
        for _, alone in own[own["workers"] == 1].iterrows():
            line = {"color": style.system_colour(alone["system"]), **_IDEAL}
            upper.plot(ideal, alone["batches_per_s"] * ideal, **line)
        _plot_curves(upper, own, "workers", ("batches_per_s", "low", "high"))
        for axes in lower:
            axes.plot(ideal, ideal, color=style.FOREGROUND, **_IDEAL)
            _plot_curves(axes, own, "workers", ("speedup", "speedup_low", "speedup_high"))
            axes.set_ylim(0, 1.1 * points[["workers", "speedup"]].max().max())
    for axes in panels[-1]:
        axes.set_xlabel("workers")
    for axes in panels.flat:
        _set_log2_axis(axes, sorted(points["workers"].unique()))
    style.set_log_scale(panels[0, 0], "y")
    panels[0, 0].set_ylabel("batches per second")
    if rows == 2:
        panels[1, 0].set_ylabel("speedup")
    _add_legend(plot, points)
    return Drawing(plot, points, {"intervals": _INTERVALS})


@table("scaling_table", title="Scaling", needs=_is_sweep_over_workers)
def scaling_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of throughput, speedup and efficiency by number of workers."""
    columns = ["system", "servers", "batch", "workers", "batches_per_s", "batches_low"]
    columns += ["batches_high", "speedup", "speedup_low", "speedup_high", "efficiency"]
    limits = {"low": "batches_low", "high": "batches_high"}
    return format_table(scaling(records).rename(columns=limits), [*columns, "oversubscribed"])


@table(
    "crossovers",
    title="Crossovers",
    text="The number of workers from which another system has the higher throughput, interpolated "
    "between the measured numbers; a dash: the limit of the 95% interval is beyond them.",
    needs=lambda records: _is_sweep_over_workers(records) and len(crossovers(records)) > 0,
)
def crossover_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the numbers of workers at which the faster system changes."""
    return format_table(crossovers(records))


def _has_training_times(records: Sequence[Record]) -> bool:
    times = published_training_times(records)
    points = times[["local_batch", "workers"]].drop_duplicates()
    return len(points) > 1 and _is_one_setting(records)


@figure("training_time", title="Training time of the published epochs", needs=_has_training_times)
def training_time_figure(records: Sequence[Record]) -> Drawing:
    """Time of the published number of epochs, extrapolated: the mean timed step times {steps}. Each
    worker makes all epochs. The start-up is not included. {intervals}.
    """
    times = published_training_times(records)
    batches = sorted(times["local_batch"].unique())
    panels = {
        f"batch per worker: {batch:,}": (times[times["local_batch"] == batch], "workers")
        for batch in batches
    }
    alone = times[times["workers"] == 1]
    panels = {"one worker": (alone, "local_batch"), **panels}
    panels = {title: each for title, each in panels.items() if each[0][each[1]].nunique() > 1}
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    plot = style.new_figure(0.6 + 2.3 * rows)
    grid = plot.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, (title, (points, x)) in zip(grid.flat, panels.items(), strict=False):
        axes.set_title(title)
        _plot_curves(axes, points, x, ("training_s", "low", "high"))
        _set_log2_axis(axes, sorted(points[x].unique()))
        axes.set_xlabel("workers" if x == "workers" else "examples per step")
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    style.set_log_scale(grid[0, 0], "y")
    for axes in grid[:, 0]:
        axes.set_ylabel("seconds")
    _add_legend(plot, times)
    steps = times.drop_duplicates("local_batch").set_index("local_batch")["steps"].sort_index()
    phrase = ", ".join(
        f"{count:,.0f} steps of {batch:,} examples" for batch, count in steps.items()
    )
    return Drawing(plot, times, {"steps": phrase, "intervals": _INTERVALS})


def _curve_styles(points: pd.DataFrame) -> dict[tuple[str, int], style.LineStyle]:
    """Return the line styles of the curves: of the system, or of the servers if they vary."""
    curves = dict.fromkeys(zip(points["system"], points["layout"], strict=True))
    return {
        (system, servers): style.line_style(system)
        if not servers
        else "-"
        if servers == 1
        else "--"
        for system, servers in curves
    }


def _plot_curves(axes: Axes, points: pd.DataFrame, x: str, columns: tuple[str, str, str]) -> None:
    """Plot a quantity, of which the columns are the value and the ends of its interval."""
    value, low, high = columns
    for (system, layout), line in _curve_styles(points).items():
        curve = points[(points["system"] == system) & (points["layout"] == layout)]
        colour = style.system_colour(system)
        axes.plot(curve[x], curve[value], color=colour, linestyle=line, linewidth=1.2)
        axes.vlines(curve[x], curve[low], curve[high], color=colour, linewidth=1)
        for _, point in curve.iterrows():
            axes.plot(
                point[x],
                point[value],
                style.system_marker(system),
                color=style.BACKGROUND if point["oversubscribed"] else colour,
                markeredgecolor=colour,
                markersize=5,
            )


def _set_log2_axis(axes: Axes, ticks: Sequence[int]) -> None:
    style.grid_axis(axes, "y")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


def _add_legend(plot: Figure, points: pd.DataFrame) -> None:
    handles = []
    for (system, servers), line in _curve_styles(points).items():
        suffix = f", {servers} server{'s' if servers > 1 else ''}" if servers else ""
        handles.append(style.system_legend_line(system, marker=True, style=line, suffix=suffix))
    style.legend_above(plot, handles, 2, handlelength=2.4)
