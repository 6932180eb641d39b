"""Pictures of chapter 3: computation graphs with values and gradients on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from horizont.reporting import labels
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.reporting.tables import Table, text_table
from horizont.theory.backpropagation import GRAPH, difference_errors
from horizont.theory.differentiate import backward, forward
from horizont.theory.formula import read_formula

FORWARD, BACK = PAIR_COLOURS[0], PAIR_COLOURS[3]

#: Where the nodes of the small graph stand, and how each is computed.
PLACES = {"a": (0.0, 1.0), "b": (0.0, 0.0), "c": (1.0, 1.0), "d": (1.0, 0.0), "e": (2.0, 0.5)}
WRITTEN = {"a": "a", "b": "b", "c": "c = a + b", "d": "d = b + 1", "e": "e = c · d"}

#: The local derivative along each edge of the small graph: a number, or the value of a node.
EDGES: dict[tuple[str, str], float | str] = {
    ("a", "c"): 1.0,
    ("b", "c"): 1.0,
    ("b", "d"): 1.0,
    ("c", "e"): "d",
    ("d", "e"): "c",
}


def small_graph(a: float = 2.0, b: float = 1.0) -> FigureOutput:
    """Draw (a + b) * (b + 1) with the values on the way there and the gradients on the way back."""
    values = forward(read_formula(GRAPH), {"a": np.array(a), "b": np.array(b)})
    slopes = backward(read_formula(GRAPH), values)
    with book_style():
        figure = new_figure(3.0)
        axes = figure.subplots()
        axes.axis("off")
        axes.set_xlim(-0.35, 2.4)
        axes.set_ylim(-0.42, 1.42)
        for (start, end), local in EDGES.items():
            number = float(values[local]) if isinstance(local, str) else local
            _edge(axes, PLACES[start], PLACES[end], f"× {number:g}")
        for name, place in PLACES.items():
            _node(axes, name, place, float(values[name]), float(slopes[name]))
    caption = (
        f"The computation graph of (a + b) · (b + 1) for a = {a:g} and b = {b:g}. Blue: values, "
        "computed from left to right. Purple: how fast e changes with each value, computed from "
        "right to left. Each arrow multiplies by its local derivative; where two arrows leave a "
        f"value, as they leave b, the parts add up: {float(slopes['b']):g} = "
        f"{float(values['d']):g} + {float(values['c']):g}."
    )
    return FigureOutput(figure, "graph", caption)


def _edge(axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str) -> None:
    about = {"arrowstyle": "-|>", "color": FOREGROUND, "linewidth": 1, "shrinkA": 26, "shrinkB": 30}
    axes.annotate("", end, start, arrowprops=about)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    box = {"facecolor": BACKGROUND, "edgecolor": "none", "pad": 1.5}
    axes.text(x, y, label, color=BACK, ha="center", va="center", bbox=box)


def _node(axes: Axes, name: str, place: tuple[float, float], value: float, slope: float) -> None:
    x, y = place
    box = {
        "boxstyle": "round,pad=0.45",
        "facecolor": BACKGROUND,
        "edgecolor": FOREGROUND,
        "linewidth": 1,
    }
    axes.text(x, y, WRITTEN[name], ha="center", va="center", bbox=box, fontsize=10)
    axes.text(x, y + 0.2, f"{value:g}", color=FORWARD, ha="center", va="bottom", weight="bold")
    axes.text(x, y - 0.2, f"∂e/∂{name} = {slope:g}", color=BACK, ha="center", va="top")


def differences() -> FigureOutput:
    """Draw how wrong finite differences are for each size of the step."""
    steps = 10.0 ** np.arange(-13, 0.01, 0.5)
    errors = difference_errors(steps)
    best = int(np.argmin(errors))
    with book_style():
        figure = new_figure(2.7)
        axes = figure.subplots()
        grid_axis(axes, "y")
        axes.loglog(steps, errors, "o-", color=PAIR_COLOURS[0], markersize=4)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.annotate("rounding", (1e-12, errors[2]), xytext=(12, 8), textcoords="offset points")
        axes.annotate("curvature", (1e-1, errors[-3]), xytext=(-62, 8), textcoords="offset points")
        axes.set_xlabel("step of the finite difference")
        axes.set_ylabel("relative error")
    caption = (
        "The error of finite differences on the small network, in float64. A large step feels the "
        "curvature, a small one is drowned in rounding; the best one, "
        f"{steps[best]:.0e}, leaves {errors[best]:.0e}. Backpropagation has no step to choose, and "
        "is exact up to rounding."
    )
    return FigureOutput(figure, "differences", caption)


def told_gradients(by_a: Mapping[str, Any], by_b: Mapping[str, Any]) -> Table:
    """Show what each framework says of the small graph."""
    rows = [
        {
            "framework": labels.framework_label(name),
            "∂e/∂a": f"{np.ravel(by_a[name])[0]:g}",
            "∂e/∂b": f"{np.ravel(by_b[name])[0]:g}",
        }
        for name in by_a
    ]
    return text_table(pd.DataFrame(rows), numbers=["∂e/∂a", "∂e/∂b"])
