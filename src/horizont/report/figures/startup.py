"""How long a system takes before its first step is done."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from horizont.report import words
from horizont.report.figures.labels import ROW, name_rows, say_why_empty
from horizont.report.style import PAPER, STARTUP_COLOURS, drawing, new_figure, only_grid


def startup_bars(startup: pd.DataFrame, systems: list[str]) -> Figure:
    """Draw the parts of each system's start-up as a stacked bar.

    Parameters
    ----------
    startup
        As of `horizont.analysis.startup`.
    systems
        All planned systems, also those that never started.
    """
    parts = list(dict.fromkeys(startup["part"]))
    colours = dict(zip(parts, STARTUP_COLOURS * 2, strict=False))
    with drawing():
        figure = new_figure(ROW * len(systems) + 0.95)
        axes = figure.subplots()
        only_grid(axes, "x")
        name_rows(axes, systems)
        for row, system in enumerate(systems):
            own = startup[startup["system"] == system]
            left = 0.0
            for part, spent_s in zip(own["part"], own["mean_s"], strict=True):
                axes.barh(row, spent_s, left=left, height=0.5, color=colours[part], edgecolor=PAPER)
                left += spent_s
            if not left:
                say_why_empty(axes, row, "did not start")
        axes.set_xlabel("seconds from the start of a process, mean over processes and runs")
        names = [words.STARTUP.get(part, part) for part in parts]
        handles = [Patch(color=colours[p], label=n) for p, n in zip(parts, names, strict=True)]
        figure.legend(handles=handles, loc="outside upper left", ncols=5)
    return figure
