"""Chapter 4: convolution and pooling, their costs, and the filters of a trained layer."""

from __future__ import annotations

from typing import Any, NamedTuple

import autograd.numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from horizont.reporting.output import TableOutput
from horizont.reporting.style import GRID, MUTED, PAIR_COLOURS
from horizont_textbook import Array, page
from horizont_textbook.page import Plotted

FLOAT32_BYTES = 4

#: Numbers in coloured cells stay dark on a dark page, too, as the cells stay light.
CELL_COLOUR = "#202020"
FRAME_COLOUR = PAIR_COLOURS[3]

#: A small image with an edge, and a filter that responds to edges.
IMAGE = np.array([[0.0, 0, 1, 2, 2]] * 3 + [[0, 0, 0, 1, 2], [0, 0, 0, 0, 1]])
EDGE_FILTER = np.array([[-1.0, 0.0, 1.0]] * 3)


def output_size(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Return the number of window positions along an axis: floor((n + 2p - k) / s) + 1."""
    return (size + 2 * padding - kernel) // stride + 1


def pad(images: Array, padding: int) -> Array:
    """Return images with a border of zeros."""
    return np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)), "constant")


def windows(images: Array, kernel: int, stride: int) -> Array:
    """Return all square windows, (examples, channels, rows, columns, kernel, kernel)."""
    height, width = images.shape[-2:]
    offsets = np.arange(kernel)
    rows = stride * np.arange(output_size(height, kernel, stride))[:, None] + offsets
    columns = stride * np.arange(output_size(width, kernel, stride))[:, None] + offsets
    return images[:, :, rows[:, None, :, None], columns[None, :, None, :]]


def convolution(images: Array, kernels: Array, stride: int = 1, padding: int = 0) -> Array:
    """Sum the products of each window of each image with each kernel.

    Images are (examples, channels, height, width), kernels (filters, channels, height, width).
    They are not flipped: what deep learning calls a convolution is a cross-correlation.
    """
    patches = windows(pad(images, padding), kernels.shape[-1], stride)
    return np.einsum("nchwij,ocij->nohw", patches, kernels)


def max_pool(images: Array, size: int = 2, stride: int = 2) -> Array:
    """Return the maximum of each window."""
    return np.max(windows(images, size, stride), axis=(-2, -1))


def average_pool(images: Array, size: int = 2, stride: int = 2) -> Array:
    """Return the mean of each window."""
    return np.mean(windows(images, size, stride), axis=(-2, -1))


class LayerCosts(NamedTuple):
    """What a layer needs for one image; each multiplication goes with an addition."""

    outputs: int
    weights: int
    multiplications: int


def convolution_costs(
    size: int, channels: int, filters: int, kernel: int, *, stride: int = 1, padding: int = 0
) -> LayerCosts:
    """Compute the costs of a convolution on a square image; all positions share the weights."""
    positions = output_size(size, kernel, stride, padding) ** 2
    inputs = channels * kernel**2
    return LayerCosts(positions * filters, filters * (inputs + 1), positions * filters * inputs)


def dense_costs(inputs: int, outputs: int) -> LayerCosts:
    """Compute the costs of a fully connected layer, with a weight for each pair."""
    return LayerCosts(outputs, outputs * (inputs + 1), outputs * inputs)


def spatial_correlation(kernels: Array) -> float:
    """Return the correlation between neighbouring weights of filters, down and across."""
    one = np.concatenate([kernels[..., 1:, :].ravel(), kernels[..., :, 1:].ravel()])
    other = np.concatenate([kernels[..., :-1, :].ravel(), kernels[..., :, :-1].ravel()])
    return float(np.corrcoef(one, other)[0, 1])


@page.figure("sliding", height=2.8)
def plot_sliding_window(figure: Figure, stride: int = 1, padding: int = 0) -> Plotted:
    """A 3x3 filter on a 5x5 image with stride {stride} and padding {padding} gives a {size}x{size}
    feature map. The framed window, multiplied element by element with the filter and summed, is the
    framed output. This filter responds where the image gets brighter to the right.
    """
    image = pad(IMAGE[None, None], padding)[0, 0]
    feature_map = convolution(IMAGE[None, None], EDGE_FILTER[None, None], stride, padding)[0, 0]
    last = len(feature_map) - 1
    panels = figure.subplots(1, 3, width_ratios=[len(image), 3, 3.6])
    _plot_cells(panels[0], image, "image")
    _plot_cells(panels[1], EDGE_FILTER, "filter")
    _plot_cells(panels[2], feature_map, "feature map")
    _plot_frame(panels[0], last * stride, last * stride, 3)
    _plot_frame(panels[2], last, last, 1)
    if padding:
        _plot_frame(panels[0], padding, padding, len(IMAGE), colour=MUTED)
    return pd.DataFrame(feature_map), {"size": len(feature_map)}


@page.figure("pooling", height=2.1)
def plot_pooling(figure: Figure) -> Plotted:
    """Pooling with windows of 2x2 and stride 2 leaves one number of four. It has no weights, makes
    the following layers four times cheaper, and discards the exact position within the window.
    """
    feature_map = np.array([[1.0, 3, 2, 0], [5, 2, 1, 1], [0, 1, 4, 8], [2, 1, 2, 6]])
    panels = figure.subplots(1, 3, width_ratios=[4, 2.4, 2.4])
    _plot_cells(panels[0], feature_map, "feature map")
    _plot_cells(panels[1], max_pool(feature_map[None, None])[0, 0], "maximum of each 2x2")
    _plot_cells(panels[2], average_pool(feature_map[None, None])[0, 0], "mean of each 2x2")
    for row, column in ((0, 0), (0, 2), (2, 0), (2, 2)):
        _plot_frame(panels[0], row, column, 2)
    return pd.DataFrame(feature_map)


def _plot_cells(axes: Axes, values: Array, title: str) -> None:
    limit = 2 * max(float(np.abs(values).max()), 1.0)
    axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit)
    for (row, column), value in np.ndenumerate(values):
        axes.text(column, row, f"{value:g}", ha="center", va="center", color=CELL_COLOUR)
    axes.set_title(title, fontsize=9)
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)


def _plot_frame(axes: Axes, row: int, column: int, size: int, colour: str = FRAME_COLOUR) -> None:
    corner, side = (column - 0.47, row - 0.47), size - 0.06
    axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=1.8))


def cost_table() -> TableOutput:
    """Format the costs of several layers on the same image."""
    layers = {
        "convolution, 100 filters 5x5": convolution_costs(80, 3, 100, 5, padding=2),
        "the same with stride 2": convolution_costs(80, 3, 100, 5, stride=2, padding=2),
        "the same without padding": convolution_costs(80, 3, 100, 5),
        "as many outputs, fully connected": dense_costs(80 * 80 * 3, 80 * 80 * 100),
    }
    rows = [
        {
            "layer on 80x80 RGB": name,
            "outputs": f"{costs.outputs:,}",
            "outputs, MB": f"{costs.outputs * FLOAT32_BYTES / 1e6:,.2f}",
            "weights": f"{costs.weights:,}",
            "weights, MB": f"{costs.weights * FLOAT32_BYTES / 1e6:,.2f}",
            "multiplications": f"{costs.multiplications:,}",
        }
        for name, costs in layers.items()
    ]
    return page.table(rows)


@page.figure("filters", height=3.9)
def plot_filters(figure: Figure, before: Array, after: Array) -> Plotted:
    """The {count} filters of the first layer of the LeNet variant; red is positive, blue negative,
    each filter scaled to its largest weight. They are random at first; even a short training makes
    neighbouring weights more alike, and some filters respond to edges and spots.
    """
    rows = -(-len(before) // 10)
    figure.set_figheight(1.5 * rows + 0.9)
    halves: Any = figure.subfigures(2, 1)
    for half, filters, title in zip(halves, (before, after), ("before", "after"), strict=True):
        half.set_facecolor("none")
        half.suptitle(f"{title} training", x=0.01, ha="left", fontsize=10, weight="bold")
        limits = np.abs(filters).max(axis=(1, 2, 3))
        _plot_images(half, filters[:, 0], limits, rows, "RdBu_r")
    return pd.DataFrame(after.reshape(len(after), -1)), {"count": len(before)}


@page.figure("maps", height=0.95)
def plot_feature_maps(figure: Figure, image: Array, filters: Array) -> Plotted:
    """One test image (left) and its feature maps by the first nine trained filters, computed by the
    NumPy code above, after tanh: light is towards 1, dark towards -1.
    """
    maps = np.tanh(convolution(image[None], filters)[0])[:9]
    border = (image.shape[1] - maps.shape[1]) // 2
    inner = image[0, border:, border:][: maps.shape[1], : maps.shape[2]]
    scaled = 2 * (inner - inner.min()) / np.ptp(inner) - 1
    _plot_images(figure, np.concatenate([scaled[None], maps]), np.ones(10), 1, "gray")
    return pd.DataFrame(maps.reshape(len(maps), -1))


def _plot_images(figure: Any, images: Array, limits: Array, rows: int, cmap: str) -> None:
    """Plot images, ten in a row, each with its largest absolute value that has full colour."""
    for number, axes in enumerate(figure.subplots(rows, 10).flat):
        axes.axis("off")
        if number < len(images):
            axes.imshow(images[number], cmap=cmap, vmin=-limits[number], vmax=limits[number])
            frame: dict[str, Any] = {"fill": False, "edgecolor": GRID}
            axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, **frame))
