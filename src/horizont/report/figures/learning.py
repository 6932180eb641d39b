"""How the loss fell, and how good the networks became beside the best that the data allow."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from horizont.analysis import smoothed
from horizont.report import words
from horizont.report.figures.labels import scale_log
from horizont.report.figures.legends import put_above, system_line
from horizont.report.style import (
    FAINT,
    INK,
    drawing,
    new_figure,
    only_grid,
    system_colour,
    system_dash,
    system_mark,
)

#: Points of a curve; more cannot be seen and only make the page heavy.
POINTS = 100


def loss_curves(losses: pd.DataFrame) -> Figure:
    """Draw the smoothed loss of each run over the examples seen, and over time.

    Parameters
    ----------
    losses
        As of `horizont.analysis.losses`.
    """
    with drawing():
        figure = new_figure(3.1)
        over_examples, _ = figure.subplots(1, 2, sharey=True)
        if losses.empty:
            over_examples.text(0.5, 0.5, "no loss was measured", ha="center", color=FAINT)
            return figure
        _draw_over_both(figure, smoothed(losses).rename(columns={"smooth": "height"}))
        over_examples.set_ylabel("training loss")
    return figure


def quality_curves(looks: pd.DataFrame, best: float | None = None) -> Figure:
    """Draw how good the networks became over the examples seen, and over time.

    Parameters
    ----------
    looks
        As of `horizont.analysis.looks`; one measure.
    best
        The best that the data allow, if it is known.
    """
    measure = str(looks["measure"].iloc[0])
    with drawing():
        figure = new_figure(3.1)
        panels = figure.subplots(1, 2, sharey=True)
        _draw_over_both(figure, looks.assign(height=looks["value"] * SCALES[measure]), marker=".")
        panels[0].set_ylabel(LABELS[measure])
        if measure == "perplexity":
            panels[0].set_yscale("log")
        if best is not None:
            for axes in panels:
                axes.axhline(best * SCALES[measure], color=INK, linewidth=1, linestyle=":")
    return figure


#: What is written at an axis for a measure, and the factor to what is shown there.
LABELS = {"accuracy": "test accuracy, %", "perplexity": "test perplexity"}
SCALES = {"accuracy": 100.0, "perplexity": 1.0}


def _draw_over_both(figure: Figure, table: pd.DataFrame, marker: str = "") -> None:
    """Draw the heights of all runs over the examples seen (left) and over time (right)."""
    over_examples, over_time = figure.axes
    for system, runs in table.groupby("system", sort=False):
        _draw_runs(over_examples, runs, str(system), "examples", marker)
        _draw_runs(over_time, runs, str(system), "time_s", marker)
    over_examples.set_xlabel("examples seen")
    over_examples.xaxis.set_major_formatter("{x:,.0f}")
    over_examples.xaxis.set_major_locator(MaxNLocator(5))
    over_time.set_xlabel("seconds from the first step")
    for axes in (over_examples, over_time):
        only_grid(axes, "y")
        axes.set_xlim(left=0)
    lines = [system_line(system, marked=False) for system in dict.fromkeys(table["system"])]
    put_above(figure, lines, 2, handlelength=2.2)


def _draw_runs(axes: Axes, runs: pd.DataFrame, system: str, column: str, marker: str) -> None:
    colour = system_colour(system)
    for _, run in runs.groupby("block"):
        thin = run.iloc[:: math.ceil(len(run) / POINTS)]
        axes.plot(
            thin[column],
            thin["height"],
            marker=marker,
            color=colour,
            linestyle=system_dash(system),
            linewidth=1,
            alpha=0.75,
        )


def quality_dots(qualities: pd.DataFrame, best: float | None = None) -> Figure:
    """Draw how good the network of every run was in the end.

    Parameters
    ----------
    qualities
        As of `horizont.analysis.qualities`; one measure.
    best
        The best that the data allow, if it is known.
    """
    systems = list(dict.fromkeys(qualities["system"]))
    measure = str(qualities["measure"].iloc[0]) if len(qualities) else "accuracy"
    with drawing():
        figure = new_figure(0.34 * max(len(systems), 1) + 0.8)
        axes = figure.subplots()
        only_grid(axes, "x")
        axes.set_ylim(len(systems) - 0.4, -0.6)
        axes.set_yticks(range(len(systems)), labels=[words.system(name) for name in systems])
        for row, system in enumerate(systems):
            own = qualities.loc[qualities["system"] == system, "value"] * SCALES[measure]
            axes.plot(
                own,
                [row] * len(own),
                markersize=6,
                alpha=0.8,
                **system_mark(system),
            )
        if best is not None:
            axes.axvline(best * SCALES[measure], color=INK, linewidth=1, linestyle=":")
            axes.annotate(
                " best reachable ",
                (best * SCALES[measure], 1.0),
                xycoords=axes.get_xaxis_transform(),
                ha="right" if measure == "accuracy" else "left",
                va="bottom",
                fontsize=8.5,
            )
        axes.set_xlabel(LABELS[measure])
        if measure == "accuracy":
            axes.set_xlim(0, 100)
        else:
            scale_log(axes, "x")
    return figure
