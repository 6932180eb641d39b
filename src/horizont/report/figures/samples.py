"""A sheet of examples of a data set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from horizont.report.style import drawing, new_figure

SYNTHETIC = "SYNTHETIC STAND-IN"

#: Height in inches of the line that says so.
BANNER = 0.42


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
    with drawing():
        banner = BANNER if synthetic else 0.0
        height = 0.5 * len(shown)
        figure = new_figure(height + banner, width=0.52 * each + 1.6)
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.0, 0.0, 1.0, height / (height + banner)))
        axes.axis("off")
        sheet = _sheet(images, labels, shown, each)
        rows, columns = sheet.shape[:2]
        axes.set_xlim(-0.24 * columns, columns)
        axes.set_ylim(rows, 0)
        axes.imshow(sheet, extent=(0, columns, rows, 0), interpolation="none", aspect="equal")
        for row, label in enumerate(shown):
            name = class_names[label] if label < len(class_names) else f"class {label}"
            middle = (row + 0.5) * rows / len(shown)
            axes.text(-0.015 * columns, middle, name, ha="right", va="center")
        if synthetic:
            _stamp(figure)
    return figure


def _sheet(
    images: NDArray[np.uint8], labels: NDArray[np.int64], shown: list[int], each: int
) -> NDArray[np.uint8]:
    """Put the images into one picture, with a transparent line between them."""
    _, channels, height, width = images.shape
    cell = np.zeros((len(shown), each, height + 2, width + 2, 4), np.uint8)
    for row, label in enumerate(shown):
        for column, index in enumerate(np.flatnonzero(labels == label)[:each]):
            pixels = np.broadcast_to(images[index], (channels, height, width))
            pixels = np.moveaxis(pixels if channels == 3 else np.repeat(pixels, 3, axis=0), 0, -1)
            cell[row, column, 1:-1, 1:-1, :3] = pixels
            cell[row, column, 1:-1, 1:-1, 3] = 255
    return cell.transpose(0, 2, 1, 3, 4).reshape(len(shown) * (height + 2), each * (width + 2), 4)


def _stamp(figure: Figure) -> None:
    """Write above the sheet that this is not the real thing."""
    figure.text(
        0.985,
        1 - 0.5 * BANNER / figure.get_figheight(),
        f"{SYNTHETIC}: made-up images, not the real data set",
        ha="right",
        va="center",
        fontsize=10,
        fontweight="bold",
        color="#ffffff",
        bbox={"facecolor": "#b3261e", "edgecolor": "none", "boxstyle": "square,pad=0.5"},
    )
