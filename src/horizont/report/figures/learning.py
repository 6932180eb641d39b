"""How the loss fell, and the accuracy in the end beside the best that the data allow."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from horizont.analysis import smoothed
from horizont.report import words
from horizont.report.style import (
    FAINT,
    FRAMEWORK_MARKS,
    INK,
    PAPER,
    Dash,
    drawing,
    framework_colour,
    new_figure,
    only_grid,
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
        over_examples, over_time = figure.subplots(1, 2, sharey=True)
        if losses.empty:
            over_examples.text(0.5, 0.5, "no loss was measured", ha="center", color=FAINT)
            return figure
        for system, runs in smoothed(losses).groupby("system", sort=False):
            _draw_runs(over_examples, runs, str(system), "examples")
            _draw_runs(over_time, runs, str(system), "time_s")
        over_examples.set_ylabel("training loss")
        over_examples.set_xlabel("examples seen")
        over_examples.xaxis.set_major_formatter("{x:,.0f}")
        over_examples.xaxis.set_major_locator(MaxNLocator(5))
        over_time.set_xlabel("seconds from the first step")
        for axes in (over_examples, over_time):
            only_grid(axes, "y")
            axes.set_xlim(left=0)
        _legend(figure, list(dict.fromkeys(losses["system"])))
    return figure


def _draw_runs(axes: Axes, runs: pd.DataFrame, system: str, column: str) -> None:
    colour = framework_colour(words.framework_of(system))
    for _, run in runs.groupby("block"):
        thin = run.iloc[:: math.ceil(len(run) / POINTS)]
        axes.plot(
            thin[column],
            thin["smooth"],
            color=colour,
            linestyle=_dash(system),
            linewidth=1,
            alpha=0.75,
        )


def _dash(system: str) -> Dash:
    if "/async/" in system:
        return "--"
    return "-." if system.endswith("/sync/parameter_server") else "-"


def _legend(figure: Figure, systems: list[str]) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=framework_colour(words.framework_of(system)),
            linestyle=_dash(system),
            label=words.system(system),
        )
        for system in systems
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=2.2)


def accuracy_dots(accuracies: pd.DataFrame, best: float | None = None) -> Figure:
    """Draw the test accuracy of every run.

    Parameters
    ----------
    accuracies
        As of `horizont.analysis.accuracies`.
    best
        The best reachable accuracy, if it is known.
    """
    systems = list(dict.fromkeys(accuracies["system"]))
    with drawing():
        figure = new_figure(0.34 * max(len(systems), 1) + 0.8)
        axes = figure.subplots()
        only_grid(axes, "x")
        axes.set_ylim(len(systems) - 0.4, -0.6)
        axes.set_yticks(range(len(systems)), labels=[words.system(name) for name in systems])
        for row, system in enumerate(systems):
            framework = words.framework_of(system)
            own = accuracies.loc[accuracies["system"] == system, "accuracy"] * 100
            axes.plot(
                own,
                [row] * len(own),
                FRAMEWORK_MARKS.get(framework, "o"),
                color=PAPER if "/async/" in system else framework_colour(framework),
                markeredgecolor=framework_colour(framework),
                markersize=6,
                alpha=0.8,
            )
        if best is not None:
            axes.axvline(best * 100, color=INK, linewidth=1, linestyle=":")
            axes.annotate(
                "best reachable ",
                (best * 100, 1.0),
                xycoords=axes.get_xaxis_transform(),
                ha="right",
                va="bottom",
                fontsize=8.5,
            )
        axes.set_xlabel("test accuracy, %")
        axes.set_xlim(0, 100)
    return figure
