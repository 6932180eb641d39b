"""How the loss fell, and how good the networks became beside the best that the data allow."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from horizont.analysis.learning import smoothed
from horizont.reporting import labels
from horizont.reporting.figures.throughput import legend_above, set_log_scale, system_legend_line
from horizont.reporting.style import (
    FOREGROUND,
    MUTED,
    book_style,
    grid_axis,
    line_style,
    marker_style,
    new_figure,
    system_colour,
)

#: Points of a curve; more cannot be seen and only make the page heavy.
MAX_POINTS = 100


def loss_curves(losses: pd.DataFrame) -> Figure:
    """Draw the smoothed loss of each run over the examples seen, and over time.

    Parameters
    ----------
    losses
        As of `horizont.analysis.losses`.
    """
    with book_style():
        figure = new_figure(3.1)
        over_examples, _ = figure.subplots(1, 2, sharey=True)
        if losses.empty:
            over_examples.text(0.5, 0.5, "no loss was measured", ha="center", color=MUTED)
            return figure
        _plot_over_examples_and_time(
            figure, smoothed(losses).rename(columns={"smoothed_loss": "height"})
        )
        over_examples.set_ylabel("training loss")
    return figure


def evaluation_curves(evaluations: pd.DataFrame, best: float | None = None) -> Figure:
    """Draw how good the networks became over the examples seen, and over time.

    Parameters
    ----------
    looks
        As of `horizont.analysis.looks`; one measure.
    best
        The best that the data allow, if it is known.
    """
    measure = str(evaluations["metric"].iloc[0])
    with book_style():
        figure = new_figure(3.1)
        panels = figure.subplots(1, 2, sharey=True)
        _plot_over_examples_and_time(
            figure,
            evaluations.assign(height=evaluations["value"] * METRIC_SCALES[measure]),
            marker=".",
        )
        panels[0].set_ylabel(METRIC_LABELS[measure])
        if measure == "perplexity":
            panels[0].set_yscale("log")
        if best is not None:
            for axes in panels:
                axes.axhline(
                    best * METRIC_SCALES[measure], color=FOREGROUND, linewidth=1, linestyle=":"
                )
    return figure


#: What is written at an axis for a measure, and the factor to what is shown there.
METRIC_LABELS = {"accuracy": "test accuracy, %", "perplexity": "test perplexity"}
METRIC_SCALES = {"accuracy": 100.0, "perplexity": 1.0}


def _plot_over_examples_and_time(figure: Figure, table: pd.DataFrame, marker: str = "") -> None:
    """Draw the heights of all runs over the examples seen (left) and over time (right)."""
    over_examples, over_time = figure.axes
    for system, runs in table.groupby("system", sort=False):
        _plot_runs(over_examples, runs, str(system), "examples", marker)
        _plot_runs(over_time, runs, str(system), "time_s", marker)
    over_examples.set_xlabel("examples seen")
    over_examples.xaxis.set_major_formatter("{x:,.0f}")
    over_examples.xaxis.set_major_locator(MaxNLocator(5))
    over_time.set_xlabel("seconds from the first step")
    for axes in (over_examples, over_time):
        grid_axis(axes, "y")
        axes.set_xlim(left=0)
    lines = [
        system_legend_line(system, with_marker=False) for system in dict.fromkeys(table["system"])
    ]
    legend_above(figure, lines, 2, handlelength=2.2)


def _plot_runs(axes: Axes, runs: pd.DataFrame, system: str, column: str, marker: str) -> None:
    colour = system_colour(system)
    for _, run in runs.groupby("block"):
        thin = run.iloc[:: math.ceil(len(run) / MAX_POINTS)]
        axes.plot(
            thin[column],
            thin["height"],
            marker=marker,
            color=colour,
            linestyle=line_style(system),
            linewidth=1,
            alpha=0.75,
        )


def final_metric_dots(final_metrics: pd.DataFrame, best: float | None = None) -> Figure:
    """Draw how good the network of every run was in the end.

    Parameters
    ----------
    qualities
        As of `horizont.analysis.qualities`; one measure.
    best
        The best that the data allow, if it is known.
    """
    systems = list(dict.fromkeys(final_metrics["system"]))
    measure = str(final_metrics["metric"].iloc[0]) if len(final_metrics) else "accuracy"
    with book_style():
        figure = new_figure(0.34 * max(len(systems), 1) + 0.8)
        axes = figure.subplots()
        grid_axis(axes, "x")
        axes.set_ylim(len(systems) - 0.4, -0.6)
        axes.set_yticks(range(len(systems)), labels=[labels.system_label(name) for name in systems])
        for row, system in enumerate(systems):
            own = (
                final_metrics.loc[final_metrics["system"] == system, "value"]
                * METRIC_SCALES[measure]
            )
            axes.plot(
                own,
                [row] * len(own),
                markersize=6,
                alpha=0.8,
                **marker_style(system),
            )
        if best is not None:
            axes.axvline(
                best * METRIC_SCALES[measure], color=FOREGROUND, linewidth=1, linestyle=":"
            )
            axes.annotate(
                " best reachable ",
                (best * METRIC_SCALES[measure], 1.0),
                xycoords=axes.get_xaxis_transform(),
                ha="right" if measure == "accuracy" else "left",
                va="bottom",
                fontsize=8.5,
            )
        axes.set_xlabel(METRIC_LABELS[measure])
        if measure == "accuracy":
            axes.set_xlim(0, 100)
        else:
            set_log_scale(axes, "x")
    return figure
