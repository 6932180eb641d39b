"""The network and the data set of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Arc
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from horizont.data.prepared import ImageData, TextData
from horizont.reporting import labels, style
from horizont.reporting.output import FigureOutput, Message
from horizont.reporting.registry import Drawing, figure, table

#: Colour and label of the kinds of layers; the others have no weights and are plotted small.
LAYER_STYLES = {
    "Conv": ("#3b78b4", "convolution"),
    "Dense": ("#e07b12", "fully connected"),
    "BatchNorm": ("#3f9c7c", "batch norm"),
    "Embedding": ("#3b78b4", "embedding"),
    "LSTM": ("#b2387c", "LSTM"),
    "MaxPool": ("#b2387c", "pooling"),
    "GlobalAveragePool": ("#b2387c", "pooling"),
    "Add": ("#24292f", "sum, concatenation"),
    "Concat": ("#24292f", "sum, concatenation"),
}
OTHER_LAYER_STYLE = ("#a9b1ba", "activation, dropout, upsampling, flattening")

SYNTHETIC_BANNER = "SYNTHETIC STAND-IN"

#: Height in inches.
BANNER_HEIGHT = 0.42

#: The first examples, of which some of each class are shown.
EXAMPLES_SCANNED = 2000

IMAGES_PER_CLASS = 8


@figure("network", title="The network")
def network_figure(name: str, layers: Sequence[Mapping[str, Any]]) -> Drawing:
    """{label}: {layers} layers, {weights} weights. Each marker is a layer; its input is the output
    of the layer before, unless an arc leads to it. The lower charts are logarithmic.
    """
    rows = pd.DataFrame(list(layers))  # of `horizont.networks.network.summary`
    max_span = max(number - min(sources) for number, sources in enumerate(rows["sources"]))
    is_chain = max_span == 1
    plot = style.new_figure(3.6 if is_chain else 4.4)
    heights = [0.25 if is_chain else 1.0, 1.0, 1.0]
    connections, outputs, weights = plot.subplots(3, 1, sharex=True, height_ratios=heights)
    _plot_connections(connections, rows, max_span)
    _plot_layer_bars(outputs, rows, "outputs", "outputs\nper example")
    _plot_layer_bars(weights, rows, "weights", "weights")
    weights.set_xlabel("layer, in the order of computation")
    weights.set_xlim(-1.5, len(rows) + 0.5)
    weights.xaxis.set_major_locator(MaxNLocator(integer=True))
    weights.xaxis.set_major_formatter(
        lambda position, _: f"{position + 1:.0f}" if 0 <= position < len(rows) else ""
    )
    legend = connections.get_legend_handles_labels()
    plot.legend(*legend, loc="outside upper left", ncols=3, markerscale=1.4)
    values = {
        "label": labels.network_label(name),
        "layers": len(rows),
        "weights": f"{rows['weights'].sum():,}",
    }
    return Drawing(plot, rows, values)


def _layer_style(kind: str) -> tuple[str, str]:
    return LAYER_STYLES.get(kind, OTHER_LAYER_STYLE)


def _plot_connections(axes: Axes, rows: pd.DataFrame, max_span: int) -> None:
    axes.plot([-1, len(rows) - 1], [0, 0], color=style.MUTED, linewidth=0.8, zorder=1)
    for (colour, label), own in rows.groupby(rows["kind"].map(_layer_style), sort=False):
        size = 7 if (colour, label) == OTHER_LAYER_STYLE else 16
        axes.scatter(own.index, 0 * own.index, s=size, color=colour, label=label, zorder=3)
    for number, sources in enumerate(rows["sources"]):
        for source in sources:
            if source < number - 1:
                span, middle = number - source, ((source + number) / 2, 0)
                line: dict[str, Any] = {"color": style.FOREGROUND, "linewidth": 0.6}
                axes.add_patch(Arc(middle, span, span, theta1=0, theta2=180, **line))
    axes.set_ylim(-0.12 * max_span / 2 - 0.3, max_span / 2 + 0.5 if max_span > 1 else 0.5)
    axes.set_axis_off()


def _plot_layer_bars(axes: Axes, rows: pd.DataFrame, column: str, label: str) -> None:
    style.grid_axis(axes, "y")
    positive = rows[rows[column] > 0]
    colours = [_layer_style(kind)[0] for kind in positive["kind"]]
    axes.bar(positive.index, positive[column], color=colours, width=0.85)
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(_power_of_ten_label)
    axes.minorticks_off()


def _power_of_ten_label(value: float, _: object = None) -> str:
    """Format a power of ten: `10`, `1k`, `1M`."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:,.0f}{letter}"
    return f"{value:.0f}"


@table("samples", title="Examples")
def dataset_samples(data: ImageData | TextData) -> FigureOutput | Message:
    """Build a figure of the first images of each class, or a sample of a text."""
    if isinstance(data, TextData):
        words = " ".join(data.vocabulary[token] for token in data.train_tokens[:120])
        return Message(f"{words} …", element="blockquote")
    return image_samples(data)


@figure("samples-images")
def image_samples(data: ImageData) -> Drawing:
    """Training examples, {synthetic}{label}: the first of each class."""
    is_synthetic = data.description.source == "synthetic"
    names = data.description.class_names
    if not is_synthetic:
        names = names or labels.CLASS_NAMES.get(data.description.name, ())
    classes = np.asarray(data.train_labels[:EXAMPLES_SCANNED])
    images = np.asarray(data.train_images[:EXAMPLES_SCANNED])
    numbers, counts = np.unique(classes, return_counts=True)
    shown = numbers[:10].tolist()
    banner = BANNER_HEIGHT if is_synthetic else 0.0
    height = 0.5 * len(shown)
    plot = style.new_figure(height + banner, width=0.52 * IMAGES_PER_CLASS + 1.6)
    plot.set_layout_engine("none")
    axes = plot.add_axes((0.0, 0.0, 1.0, height / (height + banner)))
    axes.axis("off")
    tiles = _tile_images(images, classes, shown)
    rows, columns = tiles.shape[:2]
    axes.set_xlim(-0.24 * columns, columns)
    axes.set_ylim(rows, 0)
    axes.imshow(tiles, extent=(0, columns, rows, 0), interpolation="none", aspect="equal")
    for row, number in enumerate(shown):
        name = names[number] if number < len(names) else f"class {number}"
        middle = (row + 0.5) * rows / len(shown)
        axes.text(-0.015 * columns, middle, name, ha="right", va="center")
    if is_synthetic:
        plot.text(
            0.985,
            1 - 0.5 * BANNER_HEIGHT / plot.get_figheight(),
            f"{SYNTHETIC_BANNER}: generated images, not the real data set",
            ha="right",
            va="center",
            fontsize=10,
            fontweight="bold",
            color="#ffffff",
            bbox={"facecolor": "#b3261e", "edgecolor": "none", "boxstyle": "square,pad=0.5"},
        )
    values = {
        "synthetic": "synthetic stand-ins for " if is_synthetic else "",
        "label": labels.dataset_label(data.description.name),
    }
    return Drawing(plot, pd.DataFrame({"class": numbers, "examples": counts}), values)


def _tile_images(
    images: NDArray[np.uint8], classes: NDArray[np.int64], shown: list[int]
) -> NDArray[np.uint8]:
    """Combine the images into one RGBA image, with transparent lines between them."""
    _, channels, height, width = images.shape
    tiles = np.zeros((len(shown), IMAGES_PER_CLASS, height + 2, width + 2, 4), np.uint8)
    for row, number in enumerate(shown):
        for column, index in enumerate(np.flatnonzero(classes == number)[:IMAGES_PER_CLASS]):
            pixels = images[index] if channels == 3 else np.repeat(images[index], 3, axis=0)
            tiles[row, column, 1:-1, 1:-1, :3] = np.moveaxis(pixels, 0, -1)
            tiles[row, column, 1:-1, 1:-1, 3] = 255
    size = (len(shown) * (height + 2), IMAGES_PER_CLASS * (width + 2), 4)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(size)
