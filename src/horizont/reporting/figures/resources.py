"""Resources of a run: each process at the left, all processes together at the right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from horizont.analysis import resources
from horizont.analysis.runs import by_system, concat_tables
from horizont.config.run import Run
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.output import Stack, TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_table
from horizont.wording import counted

_CHART_TITLES = {
    "cpu": "CPU, % of a core",
    "memory": "memory, MiB",
    "network": "network, MiB/s",
    "processes": "processes",
}
_GPU_CHART_TITLES = {"gpu": "GPU, % busy", "gpu_memory": "GPU memory, MiB"}

#: Of a curve, in a panel of some 300 pixels.
MAX_POINTS = 120

_NETWORK_STYLES: dict[str, tuple[str, style.LineStyle]] = {
    "sent": ("#3f9c7c", "-"),
    "received": ("#8a6d3b", "--"),
}


@table("resources", title="Resources over time")
def resource_figures(records: Sequence[Record]) -> Stack:
    """Plot the resources of the first successful run of each system."""
    runs = first_successful_runs(records)
    return Stack(tuple(run_resource_figure(record, record.run.system.slug) for record in runs))


@table("other_resources", title="Resources of the largest and the failed runs")
def other_resource_figures(records: Sequence[Record]) -> Stack:
    """Plot the resources of the largest run of each system, if not the first, and of failed ones.

    A figure for each run of a sweep would be some megabytes.
    """
    successful = by_system([record for record in records if record.ok]).values()
    failed = by_system([record for record in records if not record.ok]).values()
    # Of equally large runs the first one.
    largest = [
        max(runs, key=lambda record: (record.run.topology.workers, record.run.global_batch))
        for runs in successful
    ]
    first = first_successful_runs(records)
    others = [record for record in largest if record not in first] + list(chain(*failed))
    sampled = [record for record in others if len(resources.run_resource_series(record))]
    return Stack(
        tuple(
            run_resource_figure(record, f"{record.run.system.slug}-{number}")
            for number, record in enumerate(sampled)
        )
    )


@table("resource_table", title="Resources while training")
def resource_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of CPU and memory by process and host, of the first successful runs."""
    columns = ["system", "name", "host", "cpu_mean", "memory_max", "gpu_mean", "gpu_memory_max"]
    columns += ["note"]
    totals = [
        resources.resource_totals(record).assign(system=record.run.system.name)
        for record in first_successful_runs(records)
    ]
    return format_table(concat_tables(totals, columns), columns, "system")


def first_successful_runs(records: Sequence[Record]) -> list[Record]:
    """Select the first successful run of each system, in the order of systems."""
    successful = by_system([record for record in records if record.ok])
    return [runs[0] for runs in successful.values()]


@figure("resources-{name}")
def run_resource_figure(record: Record, name: str) -> Drawing:
    """{system}: resources of the processes in one run (block {block}{cluster}), sampled {rate}
    times per second; each process (left) and all together (right). Colours: the segments of the
    run, each until the slowest worker has finished it{failure}.
    """
    run = record.run
    series = resources.run_resource_series(record)
    values = {
        "name": name,
        "system": labels.system_label(run.system.name),
        "block": run.block + 1,
        "cluster": _cluster_note(run),
        "rate": f"{run.sampler_hz:g}",
        "failure": "" if record.ok else f"; the run failed: {record.result.reason}",
    }
    return Drawing(resource_charts(series, resources.segments(record)), _to_wide(series), values)


@figure("resources-command")
def command_figure(samples: pd.DataFrame, command: str) -> Drawing:
    """{command}: resources of its processes; each of the busiest (left) and all together
    (right).
    """
    zero_s = float(samples["time_s"].min()) if len(samples) else 0.0
    series = resources.resource_series(resources.label_processes(samples), zero_s)
    no_segments = pd.DataFrame(columns=["kind", "start_s", "end_s"])
    plot = resource_charts(series, no_segments, total_label="all together")
    return Drawing(plot, _to_wide(series), {"command": command})


def _to_wide(series: pd.DataFrame) -> pd.DataFrame:
    """Convert the series to one row per sample, a tenth of the size of the long format."""
    wide = series.pivot_table(index="time_s", columns=["quantity", "name"], values="value")
    wide.columns = pd.Index([" ".join(map(str, key)) for key in wide.columns.to_flat_index()])
    return wide.reset_index()


def _cluster_note(run: Run) -> str:
    """Return workers, link and CPU quota, by which runs on hosts differ."""
    topology = run.topology
    if topology.launcher == DEFAULT_LAUNCHER:
        return ""
    quota = topology.cpus_per_host
    cpus = "" if quota is None else f", {quota:g} CPUs per host"
    workers = counted(topology.workers, "worker")
    return f"; {workers}, link {labels.link_label(topology.link)}{cpus}"


def resource_charts(
    series: pd.DataFrame, run_segments: pd.DataFrame, total_label: str = "whole cluster"
) -> Figure:
    """Plot the resources over the segments of a run; each process left, all together right."""
    is_total = series["name"].isin([resources.TOTAL, *_NETWORK_STYLES])
    has_gpu = series["quantity"].isin(list(_GPU_CHART_TITLES)).any()
    titles = {**_CHART_TITLES, **(_GPU_CHART_TITLES if has_gpu else {})}
    ratios = [2 if quantity == "processes" else 3 for quantity in titles]
    plot = style.new_figure(7.0 * sum(ratios) / 11)
    panels = plot.subplots(len(titles), 2, sharex=True, height_ratios=ratios)
    sides = (("each process", series[~is_total]), (total_label, series[is_total]))
    for column, (side, own) in enumerate(sides):
        for axes, (quantity, title) in zip(panels[:, column], titles.items(), strict=True):
            _plot_chart(axes, title, side, own[own["quantity"] == quantity])
            _plot_segments(axes, run_segments)
        unit = "seconds from the first step" if len(run_segments) else "seconds"
        panels[-1, column].set_xlabel(unit)
    names = [*sorted(series.loc[~is_total, "name"].unique()), resources.TOTAL]
    lines = [Line2D([], [], color=style.process_colour(name), label=name) for name in names]
    style.legend_above(plot, lines, 6)
    patches = [
        Patch(color=style.SEGMENT_COLOURS[kind], label=labels.SEGMENTS.get(kind, kind))
        for kind in dict.fromkeys(run_segments["kind"])
    ]
    if patches:
        plot.legend(handles=patches, loc="outside lower left", ncols=6)
    return plot


def _plot_chart(axes: Axes, title: str, side: str, series: pd.DataFrame) -> None:
    is_network = title == _CHART_TITLES["network"]
    names = sorted(series["name"].unique(), reverse=is_network)
    is_machine = bool(set(names) & set(_NETWORK_STYLES))
    is_by_host = is_network and side == "each process"
    style.grid_axis(axes, "y")
    if series.empty:
        text = "Linux does not count it\nby process" if is_by_host else "not measured"
        axes.set_yticks([])
        middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.45, text, color=style.MUTED, **middle)
    elif is_by_host:
        side = "each host"
    axes.set_title(f"{title}: {'this machine' if is_machine else side}", fontsize=8.5, pad=4)
    # On a loopback link both directions are equal; the dashed line is plotted over the solid one.
    for name in names:
        own = _thinned(series[series["name"] == name])
        colour, line = _NETWORK_STYLES.get(name, (style.process_colour(name), "-"))
        axes.plot(own["time_s"], own["value"], color=colour, linestyle=line, linewidth=1.3)
    if is_machine:
        handles = [
            Line2D([], [], color=colour, linestyle=line, label=name)
            for name, (colour, line) in _NETWORK_STYLES.items()
        ]
        axes.legend(handles=handles, loc="upper right", ncols=2, fontsize=8, borderaxespad=0.6)
    if title == _CHART_TITLES["processes"] and names:
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    highest = series["value"].max()
    axes.set_ylim(0, 1.2 * highest if highest > 0 else 1.0)


def _thinned(curve: pd.DataFrame) -> pd.DataFrame:
    """Select the lowest and the highest value of each interval of a long curve."""
    curve = curve.reset_index(drop=True)
    if len(curve) <= MAX_POINTS:
        return curve
    values = curve.groupby(pd.cut(curve["time_s"], MAX_POINTS // 2, labels=False))["value"]
    return curve.loc[sorted({*values.idxmin(), *values.idxmax()})]


def _plot_segments(axes: Axes, run_segments: pd.DataFrame) -> None:
    """Plot the segments as tinted areas, with a strip of the full colour along the top."""
    for kind, start_s, end_s in run_segments[["kind", "start_s", "end_s"]].to_numpy():
        area: dict[str, Any] = {"color": style.SEGMENT_COLOURS[kind], "linewidth": 0, "zorder": 0}
        axes.axvspan(start_s, end_s, alpha=0.10, **area)
        axes.axvspan(start_s, end_s, ymin=0.95, **area)
