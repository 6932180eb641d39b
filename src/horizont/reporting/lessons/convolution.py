"""Pictures of chapter 4: windows on images, filters, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import GRID, MUTED, PAIR_COLOURS, book_style, new_figure
from horizont.reporting.tables import Table, text_table
from horizont.theory.filters import Costs, answers_of, convolution_costs, dense_costs
from horizont.theory.images import average_pool, convolution, max_pool, padded

Array = NDArray[Any]

#: Numbers in coloured cells stay dark on a dark page, too, as the cells stay light.
CELL_INK = "#202020"

#: A small image with an edge, and a filter that answers to edges.
IMAGE = np.array(
    [
        [0, 0, 1, 2, 2],
        [0, 0, 1, 2, 2],
        [0, 0, 1, 2, 2],
        [0, 0, 0, 1, 2],
        [0, 0, 0, 0, 1],
    ],
    dtype=np.float64,
)
EDGE = np.array([[-1, 0, 1], [-1, 0, 1], [-1, 0, 1]], dtype=np.float64)


def sliding(stride: int = 1, padding: int = 0) -> FigureOutput:
    """Draw a filter on an image, and what it answers."""
    image = padded(IMAGE[None, None], padding)[0, 0]
    found = convolution(IMAGE[None, None], EDGE[None, None], stride, padding)[0, 0]
    row, column = found.shape[0] - 1, found.shape[1] - 1
    with book_style():
        figure = new_figure(2.8)
        parts = figure.subplots(1, 3, width_ratios=[len(image), 3, 3.6])
        _cells(parts[0], image, "image")
        _cells(parts[1], EDGE, "filter")
        _cells(parts[2], found, "feature map")
        _frame(parts[0], row * stride, column * stride, 3)
        _frame(parts[2], row, column, 1)
        if padding:
            _frame(parts[0], padding, padding, len(IMAGE), colour=MUTED)
    caption = (
        f"A 3x3 filter on a 5x5 image with stride {stride} and padding {padding} makes a "
        f"{found.shape[0]}x{found.shape[1]} map. The framed window, multiplied number by number "
        "with the filter and added up, is the framed answer. This filter answers where the image "
        "gets brighter to the right."
    )
    return FigureOutput(figure, "sliding", caption)


def pooling() -> FigureOutput:
    """Draw max and average pooling on a map."""
    map_ = np.array([[1, 3, 2, 0], [5, 2, 1, 1], [0, 1, 4, 8], [2, 1, 2, 6]], dtype=np.float64)
    with book_style():
        figure = new_figure(2.1)
        parts = figure.subplots(1, 3, width_ratios=[4, 2.4, 2.4])
        _cells(parts[0], map_, "map")
        _cells(parts[1], max_pool(map_[None, None])[0, 0], "largest of each 2x2")
        _cells(parts[2], average_pool(map_[None, None])[0, 0], "mean of each 2x2")
        for row, column in ((0, 0), (0, 2), (2, 0), (2, 2)):
            _frame(parts[0], row, column, 2)
    caption = (
        "Pooling with windows of 2x2 and stride 2 keeps one number of four. It has no weights, "
        "makes what follows four times cheaper, and forgets where exactly in the window "
        "something was."
    )
    return FigureOutput(figure, "pooling", caption)


def _cells(axes: Axes, values: Array, title: str) -> None:
    top = max(float(np.abs(values).max()), 1.0)
    axes.imshow(values, cmap="RdBu_r", vmin=-2 * top, vmax=2 * top)
    for (row, column), value in np.ndenumerate(values):
        axes.text(column, row, f"{value:g}", ha="center", va="center", color=CELL_INK)
    axes.set_title(title, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)


def _frame(axes: Axes, row: int, column: int, size: int, colour: str = PAIR_COLOURS[3]) -> None:
    place = (column - 0.47, row - 0.47)
    axes.add_patch(
        Rectangle(place, size - 0.06, size - 0.06, fill=False, edgecolor=colour, linewidth=1.8)
    )


def costs() -> Table:
    """Compare the layer of the text with others on the same image."""
    kinds = {
        "convolution, 100 filters 5x5": convolution_costs(80, 3, 100, 5, padding=2),
        "the same with stride 2": convolution_costs(80, 3, 100, 5, stride=2, padding=2),
        "the same without padding": convolution_costs(80, 3, 100, 5),
        "as many outputs, fully connected": dense_costs(80 * 80 * 3, 80 * 80 * 100),
    }
    rows = [{"layer on 80x80 RGB": name, **_counted(each)} for name, each in kinds.items()]
    frame = pd.DataFrame(rows)
    return text_table(frame, numbers=list(frame.columns[1:]))


def _counted(costs: Costs) -> dict[str, str]:
    return {
        "outputs": f"{costs.outputs:,}",
        "outputs, MB": f"{costs.output_bytes / 1e6:,.2f}",
        "weights": f"{costs.weights:,}",
        "weights, MB": f"{costs.weight_bytes / 1e6:,.2f}",
        "multiplications": f"{costs.multiplications:,}",
    }


def first_filters(before: Array, after: Array) -> FigureOutput:
    """Draw the filters of the first layer before and after training.

    Parameters
    ----------
    before, after
        (filters, 1, height, width).
    """
    columns = 10
    rows = -(-len(before) // columns)
    with book_style():
        figure = new_figure(1.5 * rows + 0.9)
        halves: Any = figure.subfigures(2, 1)
        for half, filters, title in zip(halves, (before, after), ("before", "after"), strict=True):
            half.set_facecolor("none")
            half.suptitle(f"{title} training", x=0.01, ha="left", fontsize=10, weight="bold")
            _sheet(half, filters[:, 0], rows, columns, cmap="RdBu_r", centred=True)
    caption = (
        f"The {len(before)} filters of the first layer of the LeNet variant; red is positive, blue "
        "negative, each filter on a scale of its own. Random at first; even a short training makes "
        "neighbouring weights more alike, and some filters look for edges and spots."
    )
    return FigureOutput(figure, "filters", caption)


def feature_maps(image: Array, filters: Array) -> FigureOutput:
    """Draw what the first filters answer to one image.

    Parameters
    ----------
    image
        (1, height, width), normalised.
    """
    maps = np.tanh(answers_of(image, filters))[:9]
    with book_style():
        figure = new_figure(0.95)
        _sheet(figure, np.concatenate([_fitted(image[0], maps), maps]), 1, 10, cmap="gray")
    caption = (
        "One test image (left) and what the first nine trained filters make of it, by the NumPy "
        "code above, after tanh: light is towards 1, dark towards -1."
    )
    return FigureOutput(figure, "maps", caption)


def _fitted(image: Array, maps: Array) -> Array:
    """Cut an image to the size of its maps, and bring it to their scale."""
    cut = (image.shape[0] - maps.shape[1]) // 2
    inner = image[cut : cut + maps.shape[1], cut : cut + maps.shape[2]]
    return np.asarray(2 * (inner - inner.min()) / np.ptp(inner) - 1)[None]


def _sheet(
    figure: Any, pictures: Array, rows: int, columns: int, cmap: str, *, centred: bool = False
) -> None:
    for place, axes in enumerate(figure.subplots(rows, columns).flat):
        axes.axis("off")
        if place < len(pictures):
            top = float(np.abs(pictures[place]).max())
            about = {"vmin": -top, "vmax": top} if centred else {"vmin": -1, "vmax": 1}
            axes.imshow(pictures[place], cmap=cmap, **about)
            axes.add_patch(
                Rectangle((0, 0), 1, 1, transform=axes.transAxes, fill=False, edgecolor=GRID)
            )
