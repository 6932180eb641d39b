"""What the operators of a step cost: a stacked bar for each system, by class."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from horizont.report.figures.labels import ROW, name_rows
from horizont.report.style import PAPER, class_look, drawing, new_figure, only_grid

_BAR = 0.6


def operator_bars(classes: pd.DataFrame) -> Figure:
    """Draw the classes of operators as a stacked bar for each system.

    Parameters
    ----------
    classes
        As of `horizont.analysis.operator_classes`.
    """
    systems = list(dict.fromkeys(classes["system"]))
    with drawing():
        figure = new_figure(ROW * len(systems) + 1.75)
        axes = figure.subplots()
        only_grid(axes, "x")
        name_rows(axes, systems)
        for row, system in enumerate(systems):
            _draw_bar(axes, row, classes[classes["system"] == system])
        axes.set_xlabel("milliseconds for one step")
        axes.set_xlim(left=0)
        _legend(figure, list(dict.fromkeys(classes["operator_class"])))
    return figure


def _draw_bar(axes: Axes, row: int, own: pd.DataFrame) -> None:
    left = 0.0
    for name, self_s in zip(own["operator_class"], own["self_s"], strict=True):
        colour, hatch = class_look(name)
        axes.barh(
            row,
            self_s * 1e3,
            left=left,
            height=_BAR,
            color=colour,
            hatch=hatch,
            edgecolor=PAPER,
            linewidth=0.6,
        )
        left += self_s * 1e3


def _legend(figure: Figure, names: list[str]) -> None:
    handles = []
    for name in names:
        colour, hatch = class_look(name)
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor=PAPER, label=name))
    figure.legend(handles=handles, loc="outside upper left", ncols=3, columnspacing=1.4)
