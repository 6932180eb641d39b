"""How far the frameworks are apart, from the first weight to the last update."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from horizont.reporting import labels
from horizont.reporting.style import (
    FOREGROUND,
    GRID,
    MUTED,
    PAIR_COLOURS,
    PAIR_MARKERS,
    book_style,
    grid_axis,
    new_figure,
)

#: Where an exact zero is drawn on a logarithmic axis.
_PLOTTED_ZERO = 1e-18


def distance_chart(rows: pd.DataFrame) -> Figure:
    """Draw the largest distance of all tensors, by pair, in the order in which training computes.

    Parameters
    ----------
    rows
        The rows of a proof: ``quantity, step, pair, dtype, distance, noise, bound, ok``.
    """
    rows = _over_all_steps(rows)
    with book_style():
        figure = new_figure(3.9)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, dtype in zip(panels, ("float64", "float32"), strict=True):
            _plot_distance_panel(axes, rows[rows["dtype"] == dtype])
            axes.set_title(dtype)
        panels[0].set_ylabel("distance, relative")
        panels[0].set_ylim(_PLOTTED_ZERO / 4, 10)
        panels[0].set_yticks([_PLOTTED_ZERO, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1])
        panels[0].set_yticklabels(["equal", *(f"1e{p}" for p in (-15, -12, -9, -6, -3)), "1"])
        panels[0].minorticks_off()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=5)
    return figure


def _over_all_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """Draw what belongs to the updates, statistics and optimizer state, over all steps at once."""
    beside = rows["quantity"].isin(["statistics", "optimizer"])
    return rows.assign(step=rows["step"].where(~beside, 0))


def _plot_distance_panel(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_yscale("log")
    grid_axis(axes, "y")
    worst = (
        rows.groupby(["quantity", "step", "pair"], sort=False)
        .agg(
            distance=("distance", "max"),
            noise=("noise", "max"),
            bound=("bound", "max"),
            ok=("ok", "all"),
        )
        .reset_index()
    )
    places = list(dict.fromkeys(zip(worst["quantity"], worst["step"], strict=True)))
    worst["place"] = [
        places.index(key) for key in zip(worst["quantity"], worst["step"], strict=True)
    ]
    for number, (pair, own) in enumerate(worst.groupby("pair")):
        shift = 0.22 * (number - (worst["pair"].nunique() - 1) / 2)
        _plot_pair(axes, own, str(pair), number, shift)
    lines = worst.groupby("place")[["noise", "bound"]].max().astype(float)
    for place, (_, line) in zip(lines.index.astype(int), lines.iterrows(), strict=True):
        ends = [place - 0.42, place + 0.42]
        bound = max(line["bound"], _PLOTTED_ZERO)
        axes.plot(ends, [bound, bound], color=FOREGROUND, linewidth=1.4)
        if line["noise"] > 0:
            axes.fill_between(ends, _PLOTTED_ZERO / 10, line["noise"], color=GRID, linewidth=0)
    axes.plot([], [], color=FOREGROUND, linewidth=1.4, label="bound")
    axes.fill_between([], [], [], color=GRID, linewidth=0, label="noise")
    axes.set_xticks(range(len(places)), labels=[_stage_label(*place) for place in places])
    axes.tick_params(axis="x", labelsize=7.5, labelrotation=0)
    axes.set_xlim(-0.6, max(len(places) - 0.4, 0.6))


def _plot_pair(axes: Axes, rows: pd.DataFrame, pair: str, number: int, shift: float) -> None:
    colour = PAIR_COLOURS[number % len(PAIR_COLOURS)]
    mark = PAIR_MARKERS[number % len(PAIR_MARKERS)]
    heights = np.clip(rows["distance"].to_numpy(float), _PLOTTED_ZERO, 5.0)
    axes.plot(
        rows["place"] + shift,
        heights,
        mark,
        color=colour,
        markersize=5,
        label=labels.pair_label(pair),
    )
    broken = ~rows["ok"].to_numpy(bool)
    if broken.any():
        axes.plot(
            rows["place"][broken] + shift,
            heights[broken],
            "o",
            fillstyle="none",
            color="#c8413b",
            markersize=12,
            markeredgewidth=1.6,
        )


def _stage_label(quantity: str, step: int) -> str:
    if quantity == "update":
        return f"step\n{step}"
    return {"gradient": "grad.", "statistics": "stat.", "optimizer": "opt."}.get(quantity, quantity)


#: Kinds of layers that are told apart: their colour and how they are called. The others carry no
#: numbers of their own and are drawn small.
LAYER_STYLES = {
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
OTHER_LAYER_STYLE = ("#a9b1ba", "activation, dropout, flattening")


def architecture_chart(rows: pd.DataFrame) -> Figure:
    """Draw the layers of a network in a row.

    Arcs above lead to a layer from one that is not the one before. Below, for each layer, how
    many numbers it gives for an example, and how many it learns.

    Parameters
    ----------
    rows
        One for each layer: ``layer, kind, sources, outputs, weights``.
    """
    reach = max((number - min(source) for number, source in enumerate(rows["sources"])), default=1)
    with book_style():
        figure = new_figure(3.6 if reach == 1 else 4.4)
        heights = [0.25 if reach == 1 else 1.0, 1.0, 1.0]
        wires, outputs, weights = figure.subplots(
            3, 1, sharex=True, gridspec_kw={"height_ratios": heights}
        )
        _plot_connections(wires, rows, reach)
        _plot_layer_bars(outputs, rows, "outputs", "numbers given\nfor an example")
        _plot_layer_bars(weights, rows, "weights", "numbers\nlearned")
        weights.set_xlabel("layer, in the order of computing")
        weights.set_xlim(-1.5, len(rows) + 0.5)
        weights.xaxis.set_major_locator(MaxNLocator(integer=True))
        weights.xaxis.set_major_formatter(lambda place, _: _layer_number_label(place, len(rows)))
        figure.legend(
            *wires.get_legend_handles_labels(), loc="outside upper left", ncols=3, markerscale=1.4
        )
    return figure


def _layer_style(kind: str) -> tuple[str, str]:
    return LAYER_STYLES.get(kind, OTHER_LAYER_STYLE)


def _plot_connections(axes: Axes, rows: pd.DataFrame, max_span: int) -> None:
    axes.plot([-1, len(rows) - 1], [0, 0], color=MUTED, linewidth=0.8, zorder=1)
    looks = rows["kind"].map(_layer_style)
    for look in dict.fromkeys([*looks]):
        places = np.flatnonzero([each == look for each in looks])
        size = 7 if look == OTHER_LAYER_STYLE else 16
        axes.scatter(places, np.zeros(len(places)), s=size, color=look[0], label=look[1], zorder=3)
    for number, sources in enumerate(rows["sources"]):
        for source in sources:
            if source < number - 1:
                _plot_arc(axes, source, number)
    axes.set_ylim(-0.12 * max_span / 2 - 0.3, max_span / 2 + 0.5 if max_span > 1 else 0.5)
    axes.set_axis_off()


def _plot_arc(axes: Axes, source: int, number: int) -> None:
    wide = number - source
    arc = Arc(
        ((source + number) / 2, 0),
        wide,
        wide,
        theta1=0,
        theta2=180,
        color=FOREGROUND,
        linewidth=0.6,
    )
    axes.add_patch(arc)


def _plot_layer_bars(axes: Axes, rows: pd.DataFrame, column: str, label: str) -> None:
    grid_axis(axes, "y")
    shown = rows[rows[column] > 0]
    colours = [_layer_style(kind)[0] for kind in shown["kind"]]
    axes.bar(shown.index, shown[column], color=colours, width=0.85)
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(FuncFormatter(_power_of_ten_label))
    axes.minorticks_off()


def _power_of_ten_label(value: float, _: object = None) -> str:
    """Write a power of ten: `10`, `1k`, `1M`."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:,.0f}{letter}"
    return f"{value:.0f}"


def _layer_number_label(position: float, layers: int) -> str:
    """Tell the number of a layer, counted from one; beside the layers nothing."""
    return f"{position + 1:.0f}" if 0 <= position < layers else ""


SYNTHETIC_BANNER = "SYNTHETIC STAND-IN"

#: Height in inches of the line that says so.
BANNER_HEIGHT = 0.42


def sample_sheet(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    class_names: Sequence[str] = (),
    *,
    synthetic: bool = False,
    each: int = 8,
    classes: int = 10,
) -> Figure:
    """Draw a few images of each class, a row a class.

    Parameters
    ----------
    images
        uint8, (examples, channels, height, width).
    labels
        int64, (examples,).
    class_names
        What the classes are called; numbers if nobody knows.
    synthetic
        Whether the images are made up; then it is written above the sheet.
    each, classes
        Images of a class and classes to be shown.
    """
    shown = [int(label) for label in np.unique(labels)[:classes]]
    with book_style():
        banner = BANNER_HEIGHT if synthetic else 0.0
        height = 0.5 * len(shown)
        figure = new_figure(height + banner, width=0.52 * each + 1.6)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, height / (height + banner)))
        axes.axis("off")
        sheet = _tile_images(images, labels, shown, each)
        rows, columns = sheet.shape[:2]
        axes.set_xlim(-0.24 * columns, columns)
        axes.set_ylim(rows, 0)
        axes.imshow(sheet, extent=(0, columns, rows, 0), interpolation="none", aspect="equal")
        for row, label in enumerate(shown):
            name = class_names[label] if label < len(class_names) else f"class {label}"
            middle = (row + 0.5) * rows / len(shown)
            axes.text(-0.015 * columns, middle, name, ha="right", va="center")
        if synthetic:
            _add_synthetic_banner(figure)
    return figure


def _tile_images(
    images: NDArray[np.uint8], labels: NDArray[np.int64], classes_shown: list[int], each: int
) -> NDArray[np.uint8]:
    """Put the images into one picture, with a transparent line between them."""
    _, channels, height, width = images.shape
    cell = np.zeros((len(classes_shown), each, height + 2, width + 2, 4), np.uint8)
    for row, label in enumerate(classes_shown):
        for column, index in enumerate(np.flatnonzero(labels == label)[:each]):
            pixels = np.broadcast_to(images[index], (channels, height, width))
            pixels = np.moveaxis(pixels if channels == 3 else np.repeat(pixels, 3, axis=0), 0, -1)
            cell[row, column, 1:-1, 1:-1, :3] = pixels
            cell[row, column, 1:-1, 1:-1, 3] = 255
    return cell.transpose(0, 2, 1, 3, 4).reshape(
        len(classes_shown) * (height + 2), each * (width + 2), 4
    )


def _add_synthetic_banner(figure: Figure) -> None:
    """Write above the sheet that this is not the real thing."""
    figure.text(
        0.985,
        1 - 0.5 * BANNER_HEIGHT / figure.get_figheight(),
        f"{SYNTHETIC_BANNER}: made-up images, not the real data set",
        ha="right",
        va="center",
        fontsize=10,
        fontweight="bold",
        color="#ffffff",
        bbox={"facecolor": "#b3261e", "edgecolor": "none", "boxstyle": "square,pad=0.5"},
    )
