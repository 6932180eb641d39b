"""The four resource charts of a run: each process at the left, all together at the right."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from horizont import analysis
from horizont.analysis.resources import RESOURCES, TOTAL
from horizont.config.run import Run
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.records.record import Record
from horizont.reporting import figures, labels
from horizont.reporting.figures.throughput import legend_above
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    FOREGROUND,
    MUTED,
    SEGMENT_COLOURS,
    UNKNOWN_COLOUR,
    LineStyle,
    book_style,
    grid_axis,
    new_figure,
    process_colour,
)
from horizont.reporting.tables import Table, format_table

_CHART_LABELS = {
    "cpu": "CPU, % of a core",
    "memory": "memory, MiB",
    "network": "network, MiB/s",
    "processes": "processes",
}
_NETWORK_STYLES: dict[str, tuple[str, LineStyle]] = {
    "sent": ("#3f9c7c", "-"),
    "received": ("#8a6d3b", "--"),
}
#: Share of a chart's height that the strip of the segments takes.
_SEGMENT_STRIP_HEIGHT = 0.05


def resource_charts(
    resources: pd.DataFrame, segments: pd.DataFrame, total_label: str = "whole cluster"
) -> Figure:
    """Draw what the processes of a run used, over what the run was doing.

    Parameters
    ----------
    resources
        As of `horizont.analysis.resources`.
    segments
        As of `horizont.analysis.resources`.
    whole
        What all processes together are called.
    """
    single = resources["name"].isin([TOTAL, *_NETWORK_STYLES])
    with book_style():
        figure = new_figure(7.0)
        panels = figure.subplots(len(RESOURCES), 2, sharex=True, height_ratios=[3, 3, 3, 2])
        sides = (("each process", resources[~single]), (total_label, resources[single]))
        for column, (side, table) in enumerate(sides):
            for axes, quantity in zip(panels[:, column], RESOURCES, strict=True):
                _plot_chart(axes, quantity, side, table[table["quantity"] == quantity])
                _mark_segments(axes, segments)
            panels[-1, column].set_xlabel(_time_label(segments))
        _resource_legends(figure, sorted(resources.loc[~single, "name"].unique()), segments)
    return figure


def _time_label(segments: pd.DataFrame) -> str:
    return "seconds from the first step" if len(segments) else "seconds"


def _plot_chart(axes: Axes, quantity: str, side: str, table: pd.DataFrame) -> None:
    grid_axis(axes, "y")
    if quantity == "network" and side == "each process" and len(table):
        side = "each host"
    if set(table["name"]) & set(_NETWORK_STYLES):
        side = "this machine"
    axes.set_title(f"{_CHART_LABELS[quantity]}: {side}", fontsize=8.5, pad=4)
    if table.empty:
        _annotate_missing_chart(axes, quantity, side)
    # Received is dashed and comes last: it lies over sent, which it equals on a loopback link.
    names = sorted(table["name"].unique(), reverse=quantity == "network")
    for name in names:
        own = table[table["name"] == name]
        colour, dash = _NETWORK_STYLES.get(name, (process_colour(name), "-"))
        axes.plot(own["time_s"], own["value"], color=colour, linestyle=dash, linewidth=1.3)
    if set(names) & set(_NETWORK_STYLES):
        _network_legend(axes)
    if quantity == "processes" and len(table):
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    most = table["value"].max() if len(table) else 0.0
    axes.set_ylim(0, 1.2 * most if most > 0 else 1.0)


def _annotate_missing_chart(axes: Axes, quantity: str, side: str) -> None:
    by_process = quantity == "network" and side == "each process"
    text = "Linux does not count it\nby process" if by_process else "not measured"
    axes.set_yticks([])
    axes.text(0.5, 0.45, text, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def _network_legend(axes: Axes) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dash, label=name)
        for name, (colour, dash) in _NETWORK_STYLES.items()
    ]
    axes.legend(handles=handles, loc="upper right", ncols=2, fontsize=8, borderaxespad=0.6)


def _mark_segments(axes: Axes, segments: pd.DataFrame) -> None:
    """Tint the segments, and name their colours by a strip along the top."""
    for _, segment in segments.iterrows():
        colour = SEGMENT_COLOURS.get(segment["kind"], UNKNOWN_COLOUR)
        span = (segment["start_s"], segment["end_s"])
        axes.axvspan(*span, color=colour, alpha=0.10, linewidth=0, zorder=0)
        axes.axvspan(*span, ymin=1 - _SEGMENT_STRIP_HEIGHT, color=colour, linewidth=0, zorder=0)


def _resource_legends(figure: Figure, names: list[str], segments: pd.DataFrame) -> None:
    lines: list[Artist] = [Line2D([], [], color=process_colour(name), label=name) for name in names]
    lines.append(Line2D([], [], color=FOREGROUND, label="all"))
    legend_above(figure, lines, 6)
    kinds = list(dict.fromkeys(segments["kind"]))
    patches = [
        Patch(
            color=SEGMENT_COLOURS.get(kind, UNKNOWN_COLOUR), label=labels.SEGMENTS.get(kind, kind)
        )
        for kind in kinds
    ]
    if patches:
        figure.legend(handles=patches, loc="outside lower left", ncols=6)


_TOTAL_COLUMNS = ["system", "name", "cpu_mean", "memory_max"]


def resource_figures(records: Sequence[Record]) -> list[FigureOutput]:
    """Draw the four resource charts for one run of each system: the first that went well."""
    return [
        _resource_figure(record, record.run.system.slug)
        for record in first_successful_runs(records)
    ]


def other_resource_figures(records: Sequence[Record]) -> list[FigureOutput]:
    """Draw the charts of all runs that `resource_pictures` leaves out, failed ones among them.

    A run without any samples is left out.
    """
    shown = {record.folder for record in first_successful_runs(records)}
    others = [
        record
        for system in analysis.systems_of(records)
        for record in records
        if record.run.system.name == system and record.folder not in shown
    ]
    sampled = [record for record in others if len(analysis.run_resource_series(record))]
    return [
        _resource_figure(record, f"{record.run.system.slug}-{number}")
        for number, record in enumerate(sampled)
    ]


def resource_table(records: Sequence[Record]) -> Table:
    """Sum up the resources of the runs of `resource_pictures`: a row a system and process."""
    totals = [
        analysis.resource_totals(record).assign(system=record.run.system.name)
        for record in first_successful_runs(records)
    ]
    frame = pd.concat(totals) if totals else pd.DataFrame(columns=_TOTAL_COLUMNS)
    return format_table(frame, _TOTAL_COLUMNS)


def command_figure(samples: pd.DataFrame, command: str) -> FigureOutput:
    """Draw the four charts of any command's process tree.

    Parameters
    ----------
    samples
        As `horizont.monitoring.read_samples` reads them.
    command
        The command, for the caption.
    """
    zero_s = float(samples["time_s"].min()) if len(samples) else 0.0
    resources = analysis.resource_series(analysis.label_processes(samples), zero_s)
    nothing = pd.DataFrame(columns=["kind", "start_s", "end_s"])
    figure = figures.resource_charts(resources, nothing, total_label="all together")
    data = _to_wide(resources)
    caption = f"{command}: what its processes used; each of the busiest (left) and all (right)."
    return FigureOutput(figure, "resources-command", caption, data)


def first_successful_runs(records: Sequence[Record]) -> list[Record]:
    """Pick the first run of each system that went well, in the order of systems."""
    good: dict[str, Record] = {}
    for record in sorted(records, key=lambda record: record.run.block):
        if record.ok:
            good.setdefault(record.run.system.name, record)
    return [good[name] for name in analysis.systems_of(list(good.values()))]


def _resource_figure(record: Record, name: str) -> FigureOutput:
    run = record.run
    resources = analysis.run_resource_series(record)
    figure = figures.resource_charts(resources, analysis.segments(record))
    failed = "" if record.ok else f" The run failed: {record.result.reason}."
    caption = (
        f"{labels.system_label(run.system.name)}: what its processes used in one run (block "
        f"{run.block + 1}{_cluster_note(run)}), sampled {run.sampler_hz:g} times a second; each process "
        "(left) and all together (right). Colours: what the run was doing; the longest of its "
        f"workers counts.{failed}"
    )
    return FigureOutput(figure, f"resources-{name}", caption, _to_wide(resources))


def _to_wide(resources: pd.DataFrame) -> pd.DataFrame:
    """Lay the charts out with a row a sample: as one long table they would be ten times as long."""
    wide = resources.pivot_table(index="time_s", columns=["quantity", "name"], values="value")
    wide.columns = pd.Index([" ".join(map(str, each)) for each in wide.columns.to_flat_index()])
    return wide.reset_index()


def _cluster_note(run: Run) -> str:
    """Tell what the runs of a cluster differ in."""
    if run.topology.launcher == DEFAULT_LAUNCHER:
        return ""
    share = run.topology.cpus_per_host
    cpus = "" if share is None else f", {share:g} processors a host"
    return f"; {run.topology.workers} workers, link {labels.link_label(run.topology.link)}{cpus}"
