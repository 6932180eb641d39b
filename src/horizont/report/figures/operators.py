"""What the operators of a step cost: a stacked bar for each system, by class."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from horizont.report.figures.bars import Look, stack, swatch
from horizont.report.figures.labels import ROW, row_axes
from horizont.report.figures.legends import put_above
from horizont.report.style import class_look, drawing, new_figure

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
        axes = row_axes(figure, systems)
        for row, system in enumerate(systems):
            own = classes[classes["system"] == system]
            looks = own["operator_class"].map(_look)
            stack(axes, row, zip(own["self_s"] * 1e3, looks, strict=True), _BAR)
        axes.set_xlabel("milliseconds for one step")
        axes.set_xlim(left=0)
        shown = [swatch(_look(name), name) for name in dict.fromkeys(classes["operator_class"])]
        put_above(figure, shown, 3, columnspacing=1.4)
    return figure


def _look(name: str) -> Look:
    return Look(*class_look(name))
