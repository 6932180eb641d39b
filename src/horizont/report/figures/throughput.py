"""Training speed of each system, every run shown."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.report.figures.labels import ROW, row_axes, say_why_empty
from horizont.report.style import (
    INK,
    drawing,
    new_figure,
    system_colour,
    system_mark,
)


def throughput_dots(runs: pd.DataFrame, estimates: pd.DataFrame) -> Figure:
    """Draw the median of each system with its interval, over the dots of its runs.

    Parameters
    ----------
    runs
        As of `horizont.analysis.run_throughput`.
    estimates
        As of `horizont.analysis.throughput`.
    """
    systems = list(estimates["system"])
    with drawing():
        figure = new_figure(ROW * len(systems) + 0.6)
        axes = row_axes(figure, systems)
        known = [runs["examples_per_s"].max(), estimates["high"].max()]
        axes.set_xlim(0, max([value for value in known if value > 0], default=1.0) * 1.15)
        for row, (_, estimate) in enumerate(estimates.iterrows()):
            own = runs.loc[runs["system"] == estimate["system"], "examples_per_s"]
            _draw_row(axes, row, estimate, own)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("examples per second, all workers together (longer is better)")
    return figure


def _draw_row(axes: Axes, row: int, estimate: pd.Series, runs: pd.Series) -> None:
    if not estimate["examples_per_s"] > 0:
        say_why_empty(axes, row, estimate["reason"])
        return
    colour = system_colour(estimate["system"])
    axes.plot([0, estimate["examples_per_s"]], [row, row], color=colour, alpha=0.35, linewidth=3)
    axes.plot(runs, [row + 0.22] * len(runs), "|", color=colour, markersize=7, markeredgewidth=1.2)
    axes.plot([estimate["low"], estimate["high"]], [row, row], color=INK, linewidth=1.8, zorder=4)
    axes.plot(
        estimate["examples_per_s"],
        row,
        markeredgewidth=1.8,
        markersize=8,
        **system_mark(estimate["system"]),
    )
    axes.annotate(
        f"{estimate['examples_per_s']:,.0f}",
        (estimate["examples_per_s"], row),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8.5,
    )
