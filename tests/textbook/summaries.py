"""Numbers that stand for a figure, a table or an array, so that two of them can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle


def array_summary(values: Any) -> list[float]:
    """Return the size, the norm, the sum, and a sum that depends on the order."""
    flat = np.nan_to_num(np.asarray(values, dtype=np.float64)).ravel()
    weights = np.cos(np.arange(flat.size))
    return [flat.size, *(float(v) for v in (np.linalg.norm(flat), flat.sum(), flat @ weights))]


def figure_summary(figure: Figure) -> list[list[list[float]]]:
    """Return a summary of the lines, images and rectangles of each panel, sorted."""
    panels = []
    for axes in _all_axes(figure):
        parts = [[0.0, *_line_summary(line)] for line in axes.lines]
        parts += [[1.0, *array_summary(image.get_array())] for image in axes.images]
        boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        parts += [[2.0, *map(float, (*b.get_xy(), b.get_width(), b.get_height()))] for b in boxes]
        panels.append(sorted(parts))
    return panels


def _line_summary(line: Any) -> list[float]:
    return [*array_summary(line.get_xdata()), *array_summary(line.get_ydata())]


def _all_axes(figure: Any) -> list[Any]:
    return [*figure.axes]


def table_summary(table: Any) -> list[list[str]]:
    """Return the cells of a table, row by row."""
    return [[str(cell) for cell in row] for row in table.cells.to_numpy().tolist()]
