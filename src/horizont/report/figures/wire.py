"""What crosses the wire, and what a slower wire costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from horizont.report import words
from horizont.report.figures.labels import ROW, name_rows, scale_log
from horizont.report.figures.legends import put_above, system_line
from horizont.report.style import (
    FAINT,
    FRAMEWORK_MARKS,
    INK,
    drawing,
    new_figure,
    only_grid,
    system_colour,
    system_dash,
)

_MIB = 2.0**20


def traffic_dots(traffic: pd.DataFrame) -> Figure:
    """Draw what each host sent and received in a step, beside what the theory says.

    Parameters
    ----------
    traffic
        As of `horizont.analysis.traffic`.
    """
    systems = list(dict.fromkeys(traffic["system"]))
    with drawing():
        figure = new_figure(ROW * max(len(systems), 1) + 0.9)
        if not systems:
            figure.text(0.5, 0.5, "no host had an interface of its own", ha="center", color=FAINT)
            return figure
        panels = figure.subplots(1, 2, sharey=True)
        for axes, way in zip(panels, ("sent", "received"), strict=True):
            only_grid(axes, "x")
            for row, system in enumerate(systems):
                _draw_hosts(axes, row, traffic[traffic["system"] == system], way)
            axes.set_xlim(left=0)
            axes.set_xlabel(f"MiB {way} in a step")
        name_rows(panels[0], systems)
        theory = Line2D([], [], color=INK, marker="|", linestyle="", markersize=11, label="theory")
        dot = Line2D([], [], color=FAINT, marker="o", linestyle="", label="a host, measured")
        put_above(figure, [dot, theory], 2)
    return figure


def _draw_hosts(axes: Axes, row: int, hosts: pd.DataFrame, way: str) -> None:
    """Draw the hosts of a system one below the other, within its row."""
    framework = words.framework_of(hosts["system"].iloc[0])
    names = list(dict.fromkeys(hosts["host"]))
    gap = 0.6 / max(len(names), 1)
    for place, name in enumerate(names):
        own = hosts[hosts["host"] == name]
        height = row + (place - (len(names) - 1) / 2) * gap
        axes.plot(
            own[f"{way}_theory_bytes"] / _MIB,
            [height] * len(own),
            "|",
            color=INK,
            markersize=9,
            markeredgewidth=1.4,
        )
        axes.plot(
            own[f"{way}_bytes"] / _MIB,
            [height] * len(own),
            FRAMEWORK_MARKS.get(framework, "o"),
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
    with drawing():
        figure = new_figure(3.3)
        axes = figure.subplots()
        if not len(known):
            axes.text(0.5, 0.5, "no run was made", ha="center", color=FAINT)
            return figure
        rates = list(dict.fromkeys(known["rate_mbit"].fillna(0)))
        places = {rate: place for place, rate in enumerate(rates)}
        axes.set_xticks(range(len(rates)), labels=[words.rate(rate) for rate in rates])
        axes.set_xlim(-0.4, len(rates) - 0.6)
        for system, own in known.groupby("system", sort=False):
            _draw_system(axes, str(system), own, places)
        scale_log(axes, "y")
        axes.set_ylabel("milliseconds a step")
        axes.set_xlabel("rate of each link")
        only_grid(axes, "y")
        _legend(figure, list(dict.fromkeys(known["system"])))
    return figure


def _draw_system(axes: Axes, system: str, table: pd.DataFrame, places: dict[float, int]) -> None:
    framework = words.framework_of(system)
    colour = system_colour(system)
    where = [places[rate] for rate in table["rate_mbit"].fillna(0)]
    axes.plot(
        where,
        table["step_s"] * 1e3,
        color=colour,
        linestyle=system_dash(system),
        marker=FRAMEWORK_MARKS.get(framework, "o"),
        markersize=6,
    )
    for place, wire_s in zip(where, table["wire_s"], strict=True):
        if wire_s > 0:
            ends = [place - 0.16, place + 0.16]
            axes.plot(ends, [wire_s * 1e3] * 2, color=INK, linewidth=1.4, zorder=4)


def _legend(figure: Figure, systems: list[str]) -> None:
    handles = [system_line(system, marked=True) for system in systems]
    handles.append(Line2D([], [], color=INK, label="the busiest link needs at least"))
    put_above(figure, handles, 2, handlelength=2.4)
