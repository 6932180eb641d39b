"""The numbers behind a figure, as a file that any spreadsheet opens."""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

#: More rows than this are thinned: a figure is as wide as some hundred of them.
ROWS = 1500

#: More cells than this in an image, and it is a photograph or a texture, not a table.
CELLS = 4096

KIND = "data:text/csv;charset=utf-8,"

#: A link to the numbers as `link` writes it, with the name of the file and the numbers.
LINK = re.compile(rf'(<a class="hz-data" download="([\w.+-]+\.csv)" href="){KIND}([^"]*)"')

_DRAWN = ["panel", "kind", "series", "x", "y", "width", "height"]


def link(name: str, frame: pd.DataFrame) -> str:
    """Write a link that holds a table as CSV; nothing if there are no rows.

    Parameters
    ----------
    name
        Of the file, without its ending.
    """
    if frame.empty:
        return ""
    every = max(1, math.ceil(len(frame) / ROWS))
    said = "data (CSV)" if every == 1 else f"data (CSV, one row of {every})"
    text = quote(csv(frame.iloc[::every]), safe=" ,.:;()/+*=@!'")
    file = re.sub(r"[^\w.+-]", "-", name)
    return f'<a class="hz-data" download="{file}.csv" href="{KIND}{text}">{said}</a>'


def csv(frame: pd.DataFrame) -> str:
    """Write a table with six digits a number; what was not measured is empty."""
    return str(frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def taken_out(page: str, folder: str, prefix: str) -> tuple[str, dict[str, str]]:
    """Put addresses of files in the place of the numbers that a page holds.

    Returns
    -------
    tuple
        The page, and the text of each file by its address below the site.
    """
    files = {}
    for _, name, text in LINK.findall(page):
        files[f"{folder}/{prefix}-{name}"] = unquote(text)
    return LINK.sub(rf'\1{folder}/{prefix}-\2"', page), files


def drawn(figure: Figure) -> pd.DataFrame:
    """Read back what a figure shows: points of lines, marks, bars, and small fields of numbers.

    Returns
    -------
    pandas.DataFrame
        ``panel`` and ``series`` by their titles and labels, ``kind`` (line, marks, bar, field),
        ``x`` and ``y`` in the units of the axes; of a bar its lower left corner, ``width`` and
        ``height``; of a field its column and row, and the value as ``height``.
    """
    rows: list[dict[str, Any]] = []
    for number, axes in enumerate(figure.axes):
        panel = axes.get_title(loc="left") or axes.get_title() or f"panel {number + 1}"
        found = [*_lines(axes), *_marks(axes), *_bars(axes), *_fields(axes)]
        rows += [{"panel": " ".join(panel.split()), **row} for row in found]
    frame = pd.DataFrame(rows, columns=_DRAWN)
    return frame.dropna(axis="columns", how="all")


def _lines(axes: Axes) -> list[dict[str, Any]]:
    """List the points of the lines; what stands at places of the frame is an ornament."""
    return [
        {"kind": "line", "series": _named(line, number), "x": x, "y": y}
        for number, line in enumerate(axes.lines)
        if line.get_transform().contains_branch(axes.transData)
        for x, y in np.asarray(line.get_xydata()).tolist()
    ]


def _marks(axes: Axes) -> list[dict[str, Any]]:
    return [
        {"kind": "marks", "series": _named(each, number), "x": x, "y": y}
        for number, each in enumerate(axes.collections)
        if isinstance(each, PathCollection)
        for x, y in np.asarray(each.get_offsets()).tolist()
    ]


def _bars(axes: Axes) -> list[dict[str, Any]]:
    return [
        {
            "kind": "bar",
            "series": _named(bars, number),
            "x": bar.get_x(),
            "y": bar.get_y(),
            "width": bar.get_width(),
            "height": bar.get_height(),
        }
        for number, bars in enumerate(axes.containers)
        if isinstance(bars, BarContainer)
        for bar in bars.patches
    ]


def _fields(axes: Axes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, image in enumerate(axes.images):
        values = np.asarray(image.get_array())
        if values.ndim == 2 and values.size <= CELLS:
            rows += [
                {"kind": "field", "series": _named(image, number), "x": x, "y": y, "height": value}
                for (y, x), value in np.ndenumerate(values)
            ]
    return rows


def _named(artist: Any, number: int) -> str:
    label = str(artist.get_label())
    return f"{number + 1}" if label.startswith("_") or not label else label
