"""The four resource charts of a run: each process at the left, all together at the right."""

from __future__ import annotations

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from horizont.analysis import RESOURCES, WHOLE
from horizont.report import words
from horizont.report.figures.legends import put_above
from horizont.report.style import (
    FAINT,
    INK,
    SEGMENT_COLOURS,
    UNKNOWN_COLOUR,
    Dash,
    drawing,
    new_figure,
    only_grid,
    process_colour,
)

_NAMES = {
    "cpu": "CPU, % of a core",
    "memory": "memory, MiB",
    "network": "network, MiB/s",
    "processes": "processes",
}
_NETWORK: dict[str, tuple[str, Dash]] = {"sent": ("#3f9c7c", "-"), "received": ("#8a6d3b", "--")}
#: Share of a chart's height that the strip of the segments takes.
_STRIP = 0.05


def resource_charts(
    resources: pd.DataFrame, segments: pd.DataFrame, whole: str = "whole cluster"
) -> Figure:
    """Draw what the processes of a run used, over what the run was doing.

    Parameters
    ----------
    resources
        As of `horizont.analysis.resources`.
    segments
        As of `horizont.analysis.segments`.
    whole
        What all processes together are called.
    """
    single = resources["name"].isin([WHOLE, *_NETWORK])
    with drawing():
        figure = new_figure(7.0)
        panels = figure.subplots(len(RESOURCES), 2, sharex=True, height_ratios=[3, 3, 3, 2])
        sides = (("each process", resources[~single]), (whole, resources[single]))
        for column, (side, table) in enumerate(sides):
            for axes, quantity in zip(panels[:, column], RESOURCES, strict=True):
                _draw_chart(axes, quantity, side, table[table["quantity"] == quantity])
                _mark_segments(axes, segments)
            panels[-1, column].set_xlabel(_time_label(segments))
        _legends(figure, sorted(resources.loc[~single, "name"].unique()), segments)
    return figure


def _time_label(segments: pd.DataFrame) -> str:
    return "seconds from the first step" if len(segments) else "seconds"


def _draw_chart(axes: Axes, quantity: str, side: str, table: pd.DataFrame) -> None:
    only_grid(axes, "y")
    if quantity == "network" and side == "each process" and len(table):
        side = "each host"
    if set(table["name"]) & set(_NETWORK):
        side = "this machine"
    axes.set_title(f"{_NAMES[quantity]}: {side}", fontsize=8.5, pad=4)
    if table.empty:
        _say_why_empty(axes, quantity, side)
    # Received is dashed and comes last: it lies over sent, which it equals on a loopback link.
    names = sorted(table["name"].unique(), reverse=quantity == "network")
    for name in names:
        own = table[table["name"] == name]
        colour, dash = _NETWORK.get(name, (process_colour(name), "-"))
        axes.plot(own["time_s"], own["value"], color=colour, linestyle=dash, linewidth=1.3)
    if set(names) & set(_NETWORK):
        _legend_network(axes)
    if quantity == "processes" and len(table):
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    most = table["value"].max() if len(table) else 0.0
    axes.set_ylim(0, 1.2 * most if most > 0 else 1.0)


def _say_why_empty(axes: Axes, quantity: str, side: str) -> None:
    by_process = quantity == "network" and side == "each process"
    text = "Linux does not count it\nby process" if by_process else "not measured"
    axes.set_yticks([])
    axes.text(0.5, 0.45, text, transform=axes.transAxes, ha="center", va="center", color=FAINT)


def _legend_network(axes: Axes) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dash, label=name)
        for name, (colour, dash) in _NETWORK.items()
    ]
    axes.legend(handles=handles, loc="upper right", ncols=2, fontsize=8, borderaxespad=0.6)


def _mark_segments(axes: Axes, segments: pd.DataFrame) -> None:
    """Tint the segments, and name their colours by a strip along the top."""
    for _, segment in segments.iterrows():
        colour = SEGMENT_COLOURS.get(segment["kind"], UNKNOWN_COLOUR)
        span = (segment["start_s"], segment["end_s"])
        axes.axvspan(*span, color=colour, alpha=0.10, linewidth=0, zorder=0)
        axes.axvspan(*span, ymin=1 - _STRIP, color=colour, linewidth=0, zorder=0)


def _legends(figure: Figure, names: list[str], segments: pd.DataFrame) -> None:
    lines: list[Artist] = [Line2D([], [], color=process_colour(name), label=name) for name in names]
    lines.append(Line2D([], [], color=INK, label="all"))
    put_above(figure, lines, 6)
    kinds = list(dict.fromkeys(segments["kind"]))
    patches = [
        Patch(color=SEGMENT_COLOURS.get(kind, UNKNOWN_COLOUR), label=words.SEGMENTS.get(kind, kind))
        for kind in kinds
    ]
    if patches:
        figure.legend(handles=patches, loc="outside lower left", ncols=6)
