"""How long a system takes before its first step is done."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from horizont.report import words
from horizont.report.figures.bars import Look, stack, swatch
from horizont.report.figures.labels import ROW, row_axes, say_why_empty
from horizont.report.figures.legends import put_above
from horizont.report.style import STARTUP_COLOURS, drawing, new_figure

_BAR = 0.5


def startup_bars(startup: pd.DataFrame, systems: list[str]) -> Figure:
    """Draw the parts of each system's start-up as a stacked bar.

    Parameters
    ----------
    startup
        As of `horizont.analysis.startup`.
    systems
        All planned systems, also those that never started.
    """
    parts = [str(part) for part in dict.fromkeys(startup["part"])]
    looks = dict(zip(parts, map(Look, STARTUP_COLOURS * 2), strict=False))
    with drawing():
        figure = new_figure(ROW * len(systems) + 0.95)
        axes = row_axes(figure, systems)
        for row, system in enumerate(systems):
            own = startup[startup["system"] == system]
            own_looks = [looks[part] for part in own["part"]]
            pieces = zip(own["mean_s"], own_looks, strict=True)
            if not stack(axes, row, pieces, _BAR):
                say_why_empty(axes, row, "did not start")
        axes.set_xlabel("seconds from the start of a process, mean over processes and runs")
        shown = [swatch(look, words.STARTUP.get(part, part)) for part, look in looks.items()]
        put_above(figure, shown, 5)
    return figure
