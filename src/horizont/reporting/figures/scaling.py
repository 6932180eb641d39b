"""Throughput, speed-up and training time by number of workers, measured and modelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from horizont.analysis.extrapolation import Extrapolation, extrapolations, has_extrapolation
from horizont.analysis.scaling import (
    crossovers,
    is_strong_scaling,
    published_training_times,
    scaling,
)
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import (
    panel_grid,
    plot_points,
    set_log2_axis,
    system_legend_line,
)
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_table
from horizont.wording import counted

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
    batches = points.groupby("batch")
    rows = 2 if points["speedup"].notna().any() else 1
    plot = style.new_figure(0.6 + 2.4 * rows)
    panels = plot.subplots(rows, len(batches), squeeze=False, sharex=True, sharey="row")
    for (upper, *lower), (batch, own) in zip(panels.T, batches, strict=True):
        upper.set_title(f"{kind}: {batch:,}")
        ideal = np.geomspace(own["workers"].min(), own["workers"].max())
        for _, alone in own[own["workers"] == 1].iterrows():
            colour = style.system_colour(alone["system"])
            upper.plot(ideal, alone["batches_per_s"] * ideal, color=colour, **_IDEAL)
        _plot_curves(upper, own, "workers", ("batches_per_s", "low", "high"))
        for axes in lower:
            axes.plot(ideal, ideal, color=style.FOREGROUND, **_IDEAL)
            _plot_curves(axes, own, "workers", ("speedup", "speedup_low", "speedup_high"))
    for axes in panels[-1]:
        axes.set_xlabel("workers")
    for axes in panels.flat:
        set_log2_axis(axes, sorted(points["workers"].unique()))
    for axes, label in zip(panels[:, 0], ("batches per second", "speedup"), strict=False):
        style.set_log_scale(axes, "y")  # ideal scaling is straight
        axes.set_ylabel(label)
    _add_legend(plot, points)
    return Drawing(plot, points, {"intervals": _INTERVALS})


@table("scaling_table", title="Scaling", needs=_is_sweep_over_workers)
def scaling_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of throughput, speedup and efficiency by number of workers."""
    columns = ["system", "servers", "batch", "workers", "batches_per_s", "low", "high", "speedup"]
    columns += ["speedup_low", "speedup_high", "efficiency", "oversubscribed"]
    return format_table(scaling(records), columns, group_by="system")


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
    panels = [("one worker", "local_batch", times[times["workers"] == 1])]
    panels += [
        (f"batch per worker: {batch:,}", "workers", own)
        for batch, own in times.groupby("local_batch")
    ]
    panels = [(title, x, points) for title, x, points in panels if points[x].nunique() > 1]
    plot, grid = panel_grid(len(panels), 2, 2.3, sharey=True)
    for axes, (title, x, points) in zip(grid, panels, strict=True):
        axes.set_title(title)
        _plot_curves(axes, points, x, ("training_s", "low", "high"))
        set_log2_axis(axes, sorted(points[x].unique()))
        axes.set_xlabel("workers" if x == "workers" else "examples per step")
    style.set_log_scale(grid[0], "y")
    for axes in grid[::2]:
        axes.set_ylabel("seconds")
    _add_legend(plot, times)
    phrase = ", ".join(
        f"{count:,.0f} steps of {batch:,} examples"
        for batch, count in times.groupby("local_batch")["steps"].first().items()
    )
    return Drawing(plot, times, {"steps": phrase, "intervals": _INTERVALS})


def _line_style(system: str, servers: int) -> style.LineStyle:
    """Return the line style of a curve: that of the system, or by its servers if they vary."""
    return ("-" if servers == 1 else "--") if servers else style.line_style(system)


def _plot_curves(axes: Axes, points: pd.DataFrame, x: str, columns: tuple[str, str, str]) -> None:
    """Plot a quantity, of which the columns are the value and the ends of its interval."""
    value, low, high = columns
    for _, curve in points.groupby(["system", "layout"], sort=False):
        system, servers = curve[["system", "layout"]].iloc[0]
        line: dict[str, Any] = {"color": style.system_colour(system)}
        dashes = _line_style(system, servers)
        axes.plot(curve[x], curve[value], linestyle=dashes, linewidth=1.2, **line)
        axes.vlines(curve[x], curve[low], curve[high], linewidth=1, **line)
        plot_points(axes, curve, system, (x, value), hollow="oversubscribed", size=5)


def _add_legend(plot: Figure, points: pd.DataFrame) -> None:
    curves = points[["system", "layout"]].drop_duplicates().itertuples(index=False)
    handles = [
        system_legend_line(
            system,
            line=_line_style(system, servers),
            suffix=f", {counted(servers, 'server')}" if servers else "",
        )
        for system, servers in curves
    ]
    style.legend_above(plot, handles, 2, handlelength=2.4)


#: A usable model is drawn up to this number of workers.
MOST_WORKERS = 50


@figure(
    "capacity",
    title="Beyond the measured numbers of workers",
    text="A closed queueing network stands for workers that do not wait for each other: each "
    "computes, then its gradients queue for the servers. Its two times are fitted to the "
    "throughput of up to five workers. It is used beyond the measured points only if it predicts "
    "those with more than five workers within 10%.",
    needs=has_extrapolation,
)
def capacity_figure(records: Sequence[Record]) -> Drawing:
    """Updates per second of all workers together. Filled markers: measured, the model is fitted to
    them; hollow markers: measured and held out; lines: the model, with its 90% interval.
    {uses}.
    """
    found = extrapolations(records)
    if not found:
        return no_drawing("too few runs had a throughput")
    batches = sorted({each.local_batch for each in found})
    plot = style.new_figure(3.4)
    panels = plot.subplots(1, len(batches), squeeze=False, sharey=True)[0]
    data = []
    for axes, batch in zip(panels, batches, strict=True):
        axes.set_title(f"batch per worker: {batch:,}")
        own = [each for each in found if each.local_batch == batch]
        data += [_plot_model(axes, each) for each in own]
        _set_scales(axes, sorted({n for each in own for n in each.points["workers"]}))
    panels[0].set_ylabel("updates per second")
    curves = {(each.system, each.servers): each for each in found}.values()
    handles = [
        system_legend_line(each.system, line=_model_style(each), suffix=_servers(each))
        for each in curves
    ]
    held_out = Line2D([], [], color=style.MUTED, marker="o", linestyle="", label="held out")
    held_out.set_markerfacecolor(style.BACKGROUND)
    style.legend_above(plot, [*handles, held_out], 1, handlelength=2.8)
    return Drawing(plot, pd.concat(data), {"uses": "; ".join(map(_use, found))})


def _servers(curve: Extrapolation) -> str:
    count = counted(curve.servers, "server")
    return f", {count}" if curve.servers else ", a server per worker"


def _model_style(curve: Extrapolation) -> style.LineStyle:
    """Return the line style of a curve, by the hosts of its servers."""
    return "--" if curve.servers else "-."


def _use(curve: Extrapolation) -> str:
    """Return whether the model of a curve may be used, as a clause."""
    name = f"{labels.system_label(curve.system)}{_servers(curve)}, batch {curve.local_batch:,}"
    if curve.unusable_reason:
        return f"{name}: not used, {curve.unusable_reason}"
    held_out = curve.points[curve.points["held_out"]]
    return f"{name}: used, off by at most {held_out['error'].abs().max():.0%}"


def _plot_model(axes: Axes, curve: Extrapolation) -> pd.DataFrame:
    """Plot a curve and return its data: measured points, and the model at each number."""
    points, colour = curve.points, style.system_colour(curve.system)
    largest = int(points["workers"].max())
    numbers = range(1, (largest if curve.unusable_reason else max(largest, MOST_WORKERS)) + 1)
    estimates = [each.columns("predicted", "low", "high") for each in curve.model.predict(numbers)]
    model = pd.DataFrame(estimates).assign(workers=numbers)
    dashes = _model_style(curve)
    axes.plot(model["workers"], model["predicted"], dashes, color=colour, linewidth=1.2)
    axes.fill_between(model["workers"], model["low"], model["high"], color=colour, alpha=0.15, lw=0)
    plot_points(axes, points, curve.system, ("workers", "measured"), hollow="held_out", size=5.5)
    measured = points[["workers", "measured", "held_out", "error", "inside"]]
    return model.merge(measured, on="workers", how="left").assign(
        system=curve.system,
        servers=curve.servers,
        batch=curve.local_batch,
        unusable_reason=curve.unusable_reason,
    )


def _set_scales(axes: Axes, measured: Sequence[int]) -> None:
    shown = [*measured, *(n for n in (25, MOST_WORKERS) if n > 1.5 * max(measured))]
    limit = axes.get_xlim()[1]
    set_log2_axis(axes, [n for n in shown if n <= limit])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("workers")
