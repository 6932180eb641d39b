"""A network from its first layer to its last: what is wired to what, and where the numbers are."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from matplotlib.ticker import FuncFormatter, MaxNLocator

from horizont.report.style import FAINT, INK, drawing, new_figure, only_grid

#: Kinds of layers that are told apart: their colour and how they are called. The others carry no
#: numbers of their own and are drawn small.
KINDS = {
    "Conv": ("#3b78b4", "convolution"),
    "Dense": ("#e07b12", "fully connected"),
    "BatchNorm": ("#3f9c7c", "batch norm"),
    "Embedding": ("#3b78b4", "table of words"),
    "LSTM": ("#b2387c", "LSTM"),
    "MaxPool": ("#b2387c", "pooling"),
    "GlobalAveragePool": ("#b2387c", "pooling"),
    "Add": ("#24292f", "sum, concatenation"),
    "Concat": ("#24292f", "sum, concatenation"),
}
OTHER = ("#a9b1ba", "activation, dropout, flattening")


def architecture(rows: pd.DataFrame) -> Figure:
    """Draw the layers of a network in a row.

    Arcs above lead to a layer from one that is not the one before. Below, for each layer, how
    many numbers it gives for an example, and how many it learns.

    Parameters
    ----------
    rows
        One for each layer: ``layer, kind, sources, outputs, weights``.
    """
    reach = max((number - min(source) for number, source in enumerate(rows["sources"])), default=1)
    with drawing():
        figure = new_figure(3.6 if reach == 1 else 4.4)
        heights = [0.25 if reach == 1 else 1.0, 1.0, 1.0]
        wires, outputs, weights = figure.subplots(
            3, 1, sharex=True, gridspec_kw={"height_ratios": heights}
        )
        _draw_wires(wires, rows, reach)
        _draw_bars(outputs, rows, "outputs", "numbers given\nfor an example")
        _draw_bars(weights, rows, "weights", "numbers\nlearned")
        weights.set_xlabel("layer, in the order of computing")
        weights.set_xlim(-1.5, len(rows) + 0.5)
        weights.xaxis.set_major_locator(MaxNLocator(integer=True))
        weights.xaxis.set_major_formatter(lambda place, _: _layer_number(place, len(rows)))
        figure.legend(
            *wires.get_legend_handles_labels(), loc="outside upper left", ncols=3, markerscale=1.4
        )
    return figure


def _look(kind: str) -> tuple[str, str]:
    return KINDS.get(kind, OTHER)


def _draw_wires(axes: Axes, rows: pd.DataFrame, reach: int) -> None:
    axes.plot([-1, len(rows) - 1], [0, 0], color=FAINT, linewidth=0.8, zorder=1)
    looks = rows["kind"].map(_look)
    for look in dict.fromkeys([*looks]):
        places = np.flatnonzero([each == look for each in looks])
        size = 7 if look == OTHER else 16
        axes.scatter(places, np.zeros(len(places)), s=size, color=look[0], label=look[1], zorder=3)
    for number, sources in enumerate(rows["sources"]):
        for source in sources:
            if source < number - 1:
                _draw_arc(axes, source, number)
    axes.set_ylim(-0.12 * reach / 2 - 0.3, reach / 2 + 0.5 if reach > 1 else 0.5)
    axes.set_axis_off()


def _draw_arc(axes: Axes, source: int, number: int) -> None:
    wide = number - source
    arc = Arc(
        ((source + number) / 2, 0), wide, wide, theta1=0, theta2=180, color=INK, linewidth=0.6
    )
    axes.add_patch(arc)


def _draw_bars(axes: Axes, rows: pd.DataFrame, column: str, label: str) -> None:
    only_grid(axes, "y")
    shown = rows[rows[column] > 0]
    colours = [_look(kind)[0] for kind in shown["kind"]]
    axes.bar(shown.index, shown[column], color=colours, width=0.85)
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.minorticks_off()


def _short(value: float, _: object = None) -> str:
    """Write a power of ten: `10`, `1k`, `1M`."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:,.0f}{letter}"
    return f"{value:.0f}"


def _layer_number(place: float, layers: int) -> str:
    """Tell the number of a layer, counted from one; beside the layers nothing."""
    return f"{place + 1:.0f}" if 0 <= place < layers else ""
