"""What crosses the wire, and what a slower wire costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from horizont import analysis
from horizont.records.record import Record
from horizont.reporting import figures, labels
from horizont.reporting.figures.throughput import (
    ROW_HEIGHT,
    label_rows,
    legend_above,
    set_log_scale,
    system_legend_line,
)
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    framework_marker,
    MUTED,
    LineStyle,
    book_style,
    grid_axis,
    line_style,
    new_figure,
    system_colour,
)

_MIB = 2.0**20


def traffic_dots(traffic: pd.DataFrame) -> Figure:
    """Draw what each host sent and received in a step, beside what the theory says.

    Parameters
    ----------
    traffic
        As of `horizont.analysis.communication`.
    """
    systems = list(dict.fromkeys(traffic["system"]))
    with book_style():
        figure = new_figure(ROW_HEIGHT * max(len(systems), 1) + 0.9)
        if not systems:
            figure.text(0.5, 0.5, "no host had an interface of its own", ha="center", color=MUTED)
            return figure
        panels = figure.subplots(1, 2, sharey=True)
        for axes, way in zip(panels, ("sent", "received"), strict=True):
            grid_axis(axes, "x")
            for row, system in enumerate(systems):
                _plot_hosts(axes, row, traffic[traffic["system"] == system], way)
            axes.set_xlim(left=0)
            axes.set_xlabel(f"MiB {way} in a step")
        label_rows(panels[0], systems)
        theory = Line2D(
            [], [], color=FOREGROUND, marker="|", linestyle="", markersize=11, label="theory"
        )
        dot = Line2D([], [], color=MUTED, marker="o", linestyle="", label="a host, measured")
        legend_above(figure, [dot, theory], 2)
    return figure


def _plot_hosts(axes: Axes, row: int, hosts: pd.DataFrame, direction: str) -> None:
    """Draw the hosts of a system one below the other, within its row."""
    framework = labels.framework_of(hosts["system"].iloc[0])
    names = list(dict.fromkeys(hosts["host"]))
    gap = 0.6 / max(len(names), 1)
    for place, name in enumerate(names):
        own = hosts[hosts["host"] == name]
        height = row + (place - (len(names) - 1) / 2) * gap
        axes.plot(
            own[f"{direction}_theory_bytes"] / _MIB,
            [height] * len(own),
            "|",
            color=FOREGROUND,
            markersize=9,
            markeredgewidth=1.4,
        )
        axes.plot(
            own[f"{direction}_bytes"] / _MIB,
            [height] * len(own),
            framework_marker(framework),
            color=system_colour(str(hosts["system"].iloc[0])),
            markersize=4.5,
            alpha=0.85,
        )


def link_curves(transfers: pd.DataFrame) -> Figure:
    """Draw the step over the rate of the links, above what the wire needs at least.

    Parameters
    ----------
    transfers
        As of `horizont.analysis.transfers`.
    """
    known = transfers.sort_values("rate_mbit", na_position="last") if len(transfers) else transfers
    with book_style():
        figure = new_figure(3.3)
        axes = figure.subplots()
        if not len(known):
            axes.text(0.5, 0.5, "no run was made", ha="center", color=MUTED)
            return figure
        rates = list(dict.fromkeys(known["rate_mbit"].fillna(0)))
        places = {rate: place for place, rate in enumerate(rates)}
        axes.set_xticks(range(len(rates)), labels=[labels.rate_label(rate) for rate in rates])
        axes.set_xlim(-0.4, len(rates) - 0.6)
        for system, own in known.groupby("system", sort=False):
            _plot_link_curve(axes, str(system), own, places)
        set_log_scale(axes, "y")
        axes.set_ylabel("milliseconds a step")
        axes.set_xlabel("rate of each link")
        grid_axis(axes, "y")
        _link_legend(figure, list(dict.fromkeys(known["system"])))
    return figure


def _plot_link_curve(
    axes: Axes, system: str, table: pd.DataFrame, positions: dict[float, int]
) -> None:
    framework = labels.framework_of(system)
    colour = system_colour(system)
    where = [positions[rate] for rate in table["rate_mbit"].fillna(0)]
    axes.plot(
        where,
        table["step_s"] * 1e3,
        color=colour,
        linestyle=line_style(system),
        marker=framework_marker(framework),
        markersize=6,
    )
    for place, wire_s in zip(where, table["wire_s"], strict=True):
        if wire_s > 0:
            ends = [place - 0.16, place + 0.16]
            axes.plot(ends, [wire_s * 1e3] * 2, color=FOREGROUND, linewidth=1.4, zorder=4)


def _link_legend(figure: Figure, systems: list[str]) -> None:
    handles = [system_legend_line(system, with_marker=True) for system in systems]
    handles.append(Line2D([], [], color=FOREGROUND, label="the busiest link needs at least"))
    legend_above(figure, handles, 2, handlelength=2.4)


def scaling_curves(table: pd.DataFrame, *, strong: bool) -> Figure:
    """Draw examples per second (above) and speedup (below), a column a batch.

    Parameters
    ----------
    table
        As of `horizont.analysis.communication`.
    strong
        Whether the batch is that of all workers together.
    """
    batches = sorted(table["batch"].unique()) if len(table) else []
    with book_style():
        figure = new_figure(5.0 if batches else 1.0)
        if not batches:
            figure.text(0.5, 0.5, "no run was made", ha="center", color=MUTED)
            return figure
        panels = figure.subplots(2, len(batches), squeeze=False, sharex=True, sharey="row")
        for column, batch in zip(panels.T, batches, strict=True):
            own = table[table["batch"] == batch]
            column[0].set_title(f"batch of {'all' if strong else 'each'}: {batch:,}")
            _plot_scaling_curves(column[0], own, "examples_per_s", "low", "high")
            _plot_scaling_curves(column[1], own, "speedup", "speedup_low", "speedup_high")
            _plot_ideal(column[1], own)
            column[1].set_xlabel("workers")
        panels[0, 0].set_ylabel("examples per second")
        panels[0, 0].yaxis.set_major_formatter("{x:,.0f}")
        panels[1, 0].set_ylabel("speedup")
        for axes in panels.flat:
            _format_worker_axis(axes, sorted(table["workers"].unique()))
        _scaling_legend(figure, table)
    return figure


def _plot_scaling_curves(axes: Axes, table: pd.DataFrame, value: str, low: str, high: str) -> None:
    for _, curve in table.groupby(["system", "servers"], sort=False):
        system, servers = str(curve["system"].iloc[0]), int(curve["servers"].iloc[0])
        framework = labels.framework_of(system)
        colour = system_colour(system)
        dash = _scaling_line_style(system, servers, table)
        axes.plot(curve["workers"], curve[value], color=colour, linestyle=dash, linewidth=1.2)
        axes.vlines(curve["workers"], curve[low], curve[high], color=colour, linewidth=1)
        for _, point in curve.iterrows():
            axes.plot(
                point["workers"],
                point[value],
                framework_marker(framework),
                color=BACKGROUND if point["oversubscribed"] else colour,
                markeredgecolor=colour,
                markersize=5,
            )


def _scaling_line_style(system: str, servers: int, table: pd.DataFrame) -> LineStyle:
    """Tell one server from several where both are drawn, else one system from the other."""
    if table.loc[table["servers"] > 0, "servers"].nunique() > 1:
        return "-" if servers <= 1 else "--"
    return line_style(system)


def _plot_ideal(axes: Axes, table: pd.DataFrame) -> None:
    workers = np.array(sorted(table["workers"].unique()))
    axes.plot(workers, workers, color=FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)))


def _format_worker_axis(axes: Axes, workers: list[int]) -> None:
    grid_axis(axes, "y")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(workers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


def _scaling_legend(figure: Figure, table: pd.DataFrame) -> None:
    curves = table.drop_duplicates(["system", "servers"])
    several = curves.loc[curves["servers"] > 0, "servers"].nunique() > 1
    handles = []
    for _, curve in curves.iterrows():
        system, servers = str(curve["system"]), int(curve["servers"])
        told = several and servers > 0
        note = f", {servers} server{'s' if servers > 1 else ''}" if told else ""
        handles.append(
            system_legend_line(system, True, _scaling_line_style(system, servers, table), note)
        )
    legend_above(figure, handles, 2, handlelength=2.4)


def traffic_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw the bytes of each host in a step, beside the theory."""
    caption = (
        "What each host sent (left) and received (right) for one step of each worker, by the "
        "counters of its own interface, over the time in which all workers made bare steps. "
        "Strokes: the numbers alone, in theory; a distance to the right of them is headers and "
        "acknowledgements. What stays on a host does not count."
    )
    found = analysis.traffic(records)
    return FigureOutput(figures.traffic_dots(found), "traffic", caption, found)


def link_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw the step over the rate of the links."""
    caption = (
        "A worker's bare step over the rate of each host's link, both logarithmic; median over "
        "the runs. Black: how long the busiest direction of any link needs for the numbers alone. "
        "A ring uses all links alike, a single server's link carries what all workers exchange."
    )
    found = analysis.link_utilisation(records)
    return FigureOutput(figures.link_curves(found), "links", caption, found)


def scaling_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw throughput and speedup over the number of workers."""
    strong = analysis.is_strong_scaling([record.run for record in records])
    caption = (
        "Throughput of all workers together (above) and speedup over one worker (below; dotted: "
        "the ideal), medians over the runs with their intervals. An open mark: the hosts together "
        "want more processors than the machine has, so they compete."
    )
    found = analysis.scaling(records)
    figure = figures.scaling_curves(found, strong=strong)
    return FigureOutput(figure, "scaling", caption, found)
