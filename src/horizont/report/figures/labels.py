"""The rows of a chart by system: names at the left, reasons where there is nothing to draw."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from horizont.report import words
from horizont.report.style import FAINT, drawing, new_figure, only_grid

#: Height of a row in inches.
ROW = 0.52
#: A logarithmic axis whose ends are farther apart than by this factor names powers of ten only.
WIDE = 100


def row_axes(figure: Figure, systems: Sequence[str]) -> Axes:
    """Make the one panel of a chart with a row for each system."""
    axes = figure.subplots()
    only_grid(axes, "x")
    name_rows(axes, systems)
    return axes


def sentence(text: str) -> Figure:
    """Write a sentence where there is nothing to draw."""
    with drawing():
        figure = new_figure(0.8)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.text(0.5, 0.5, text, ha="center", va="center", color=FAINT, style="italic")
    return figure


def name_rows(axes: Axes, systems: Sequence[str]) -> None:
    """Write the names of systems beside the rows 0, 1, ... from the top down."""
    axes.set_ylim(len(systems) - 0.4, -0.6)
    axes.set_yticks(np.arange(len(systems)), labels=[_name(system) for system in systems])
    axes.tick_params(axis="y", length=0, pad=6)
    for label in axes.get_yticklabels():
        label.set_linespacing(1.25)


def scale_log(axes: Axes, axis: Literal["x", "y"]) -> None:
    """Make an axis logarithmic; its few numbers are written out and do not touch.

    To be called when everything is drawn, since the range decides which numbers are named.
    """
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    own: Axis = axes.xaxis if axis == "x" else axes.yaxis
    low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
    own.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < WIDE * low else (1.0,)))
    own.set_major_formatter("{x:,g}")
    own.set_minor_formatter(NullFormatter())


def _name(system: str) -> str:
    return f"{words.framework(words.framework_of(system))}\n{words.mode(system)}"


def say_why_empty(axes: Axes, row: int, reason: str) -> None:
    """Write into an empty row why there is nothing to see."""
    text = textwrap.shorten(reason or "not measured", 90, placeholder=" …")
    axes.annotate(
        textwrap.fill(text, 52),
        (0.0, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        color=FAINT,
        style="italic",
        fontsize=8.5,
    )
