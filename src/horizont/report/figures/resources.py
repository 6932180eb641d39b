"""The four resource charts of a run: CPU, memory, network, processes."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from horizont.analysis import RESOURCES
from horizont.report import words
from horizont.report.style import (
    FAINT,
    GRID,
    INK,
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
    "processes": "processes of the run",
}
#: Share of the width below which two names would run into each other.
_CROWDED = 0.17

_NETWORK: dict[str, tuple[str, Dash]] = {"sent": ("#3f9c7c", "-"), "received": ("#8a6d3b", "--")}


def resource_charts(resources: pd.DataFrame, segments: pd.DataFrame) -> Figure:
    """Draw what the processes of a run used, over what the run was doing.

    Parameters
    ----------
    resources
        As of `horizont.analysis.resources`.
    segments
        As of `horizont.analysis.segments`.
    """
    with drawing():
        figure = new_figure(6.0)
        panels = figure.subplots(len(RESOURCES), 1, sharex=True, height_ratios=[3, 3, 3, 2])
        for axes, quantity in zip(panels, RESOURCES, strict=True):
            own = resources[resources["quantity"] == quantity]
            _draw_chart(axes, quantity, own)
            _shade(axes, segments)
        _name_segments(panels[0], segments)
        panels[-1].set_xlabel("seconds from the first step")
        panels[-1].yaxis.get_major_locator().set_params(integer=True)
        _legend(figure, sorted(resources.loc[resources["quantity"] == "cpu", "name"].unique()))
    return figure


def _draw_chart(axes: Axes, quantity: str, table: pd.DataFrame) -> None:
    only_grid(axes, "y")
    axes.set_title(_NAMES[quantity], fontsize=9, pad=4)
    if table.empty:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=FAINT)
    # Received is dashed and comes last: it lies over sent, which it equals on a loopback link.
    names = sorted(table["name"].unique(), reverse=quantity == "network")
    for name in names:
        own = table[table["name"] == name]
        colour, dash = _NETWORK.get(name, (process_colour(name), "-"))
        axes.plot(own["time_s"], own["value"], color=colour, linestyle=dash, linewidth=1.4)
    if quantity == "network":
        _legend_network(axes, sorted(names, reverse=not set(names) - set(_NETWORK)))
    axes.set_ylim(bottom=0)
    axes.margins(y=0.15)


def _legend_network(axes: Axes, names: list[str]) -> None:
    handles = []
    for name in names:
        colour, dash = _NETWORK.get(name, (process_colour(name), "-"))
        handles.append(Line2D([], [], color=colour, linestyle=dash, label=name))
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=max(len(names), 1),
        borderaxespad=0.1,
    )


def _shade(axes: Axes, segments: pd.DataFrame) -> None:
    """Tint every other segment."""
    for number, (_, segment) in enumerate(segments.iterrows()):
        if number % 2:
            axes.axvspan(segment["start_s"], segment["end_s"], color=GRID, alpha=0.45, zorder=0)


def _name_segments(axes: Axes, segments: pd.DataFrame) -> None:
    """Write the names of the segments above the charts; crowded ones go up line by line."""
    reach = segments["end_s"].max() - segments["start_s"].min()
    lines: list[float] = []  # where the last name on each line stands
    for _, segment in segments.iterrows():
        middle = (segment["start_s"] + segment["end_s"]) / 2
        free = [n for n, last in enumerate(lines) if middle - last > _CROWDED * reach]
        line = free[0] if free else len(lines)
        lines[line : line + 1] = [middle]
        axes.annotate(
            words.SEGMENTS.get(segment["kind"], segment["kind"]),
            (middle, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 18 + 11 * line),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
            color=INK,
        )


def _legend(figure: Figure, names: list[str]) -> None:
    handles = [Line2D([], [], color=process_colour(name), label=name) for name in names]
    figure.legend(handles=handles, loc="outside upper left", ncols=5)
