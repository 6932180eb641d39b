"""What is learned with several numbers of workers, learning rates and initial weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from horizont.analysis.claims.learning_checks import LEARNED_ACCURACY, learning_outcome
from horizont.analysis.claims.quantities import measure
from horizont.analysis.learning import (
    SMOOTHING_STEPS,
    are_about_learning,
    evaluations,
    loss_ratios,
)
from horizont.analysis.runs import successful, table_order
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import panel_grid
from horizont.reporting.registry import Condition, Drawing, figure
from horizont.wording import counted

#: Fill of the marker of a run, by what became of its training, and its label.
_OUTCOMES = {
    "learned": ("full", "learns"),
    "lost": ("left", "learns, and loses it again"),
    "failed": ("none", "does not learn"),
}

#: Horizontal distance of the runs of a cell, in cells.
_RUN_DISTANCE = 0.16


def _evaluates_over(*settings: str) -> Condition:
    """Return the condition that a network was evaluated in training, and some setting varied."""

    def condition(records: Sequence[Record]) -> bool:
        if not any(record.run.evaluation.every for record in records):
            return False
        points = evaluations(records)[list(settings)]
        return bool(len(points)) and bool((points.nunique(dropna=False) > 1).any())

    return condition


@figure(
    "learning_by_workers",
    title="Learning by number of workers",
    needs=_evaluates_over("workers", "learning_rate"),
)
def learning_by_workers_figure(records: Sequence[Record]) -> Drawing:
    """{metric} during training, over the steps of a worker (left) and over time (right), by number
    of workers. One line per run; each ends in the marker of its number of workers.
    """
    curves = _scaled_evaluations(records)
    groups = curves.groupby(["system", "learning_rate"], sort=False)
    names = labels.short_labels(list(curves["system"]))
    plot = style.new_figure(0.8 + 1.9 * len(groups))
    panels = plot.subplots(len(groups), 2, squeeze=False, sharex="col", sharey=True)
    series = _series_styles(curves["workers"])
    for (left, right), ((system, rate), own) in zip(panels, groups, strict=True):
        left.set_title(f"{names[str(system)]}, learning rate {rate:g}")
        left.set_ylabel(curves["label"].iloc[0])
        _plot_runs(left, own, "step", "workers", series)
        _plot_runs(right, own, "time_s", "workers", series)
    panels[-1, 0].set_xlabel("steps of a worker")
    panels[-1, 1].set_xlabel("seconds from the first step")
    _add_series_legend(plot, series, lambda number: counted(number, "worker"))
    return Drawing(plot, curves, {"metric": curves["metric"].iloc[0].capitalize()})


@figure(
    "learning_by_initial_weights",
    title="Learning by initial weights",
    needs=_evaluates_over("initial_limit"),
)
def learning_by_initial_weights_figure(records: Sequence[Record]) -> Drawing:
    """{metric} during training over the steps of a worker, by initial weights: those of the network
    or uniform between limits. One line per run.
    """
    curves = _scaled_evaluations(records).fillna({"initial_limit": 0.0})
    plot, panels = _system_panels(curves["system"], 2.3)
    series = _series_styles(curves["initial_limit"])
    for system, axes in panels.items():
        _plot_runs(axes, curves[curves["system"] == system], "step", "initial_limit", series)
        axes.set_xlabel("steps of a worker")
        axes.label_outer()
    plot.supylabel(curves["label"].iloc[0], fontsize=9.5)
    _add_series_legend(
        plot, series, lambda limit: f"uniform within ±{limit:g}" if limit else "of the network"
    )
    return Drawing(plot, curves, {"metric": curves["metric"].iloc[0].capitalize()})


def _compares_updates(records: Sequence[Record]) -> bool:
    return are_about_learning(records) and {"sync", "async"} <= {
        record.run.system.sync for record in successful(records)
    }


@figure("loss_by_updates", title="Loss by updates of the weights", needs=_compares_updates)
def loss_by_updates_figure(records: Sequence[Record]) -> Drawing:
    """Training loss of asynchronous workers relative to that of synchronous ones of the same
    framework after the same number of updates of the weights: one for each synchronous step, and
    one for each step of an asynchronous worker. Thin: runs with the same seed; thick: their median.
    The losses are smoothed by a running median over {window} steps.
    """
    ratios = loss_ratios(records)
    plot = style.new_figure(3.1)
    axes = plot.subplots()
    axes.axhline(1.0, color=style.FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)))
    for system, own in ratios.groupby("system", sort=False):
        line: dict[str, Any] = {"color": style.system_colour(str(system))}
        for _, run in own.groupby("block"):
            axes.plot(run["updates"], run["ratio"], linewidth=0.7, alpha=0.4, **line)
        centre = own.groupby("updates")["ratio"].median()
        axes.plot(centre.index, centre, linewidth=2.2, **line)
    style.grid_axis(axes, "y")
    axes.set_xlabel("updates of the weights")
    axes.set_ylabel("loss, asynchronous / synchronous")
    names = labels.short_labels([*dict.fromkeys(ratios["system"])])
    handles = [
        Line2D([], [], linewidth=2.2, label=name, color=style.system_colour(system))
        for system, name in names.items()
    ]
    style.legend_above(plot, handles, len(handles))
    return Drawing(plot, ratios, {"window": SMOOTHING_STEPS})


def _scaled_evaluations(records: Sequence[Record]) -> pd.DataFrame:
    """Collect the accuracy in percent, in training if it was measured, or the perplexity.

    The evaluations of all runs with their ``scaled`` value and its ``label``.
    """
    curves = evaluations(records).sort_values(
        ["system", "learning_rate", "workers", "block", "step"], key=table_order
    )
    metric = curves["metric"].iloc[0]
    if metric == "perplexity":
        return curves.assign(scaled=curves["value"], label="test perplexity")
    in_training = curves["train_value"].notna().all()
    values, kind = (curves["train_value"], "training") if in_training else (curves["value"], "test")
    return curves.assign(scaled=100 * values, label=f"{kind} accuracy, %")


def _system_panels(systems: pd.Series, height: float) -> tuple[Figure, dict[str, Axes]]:
    """Create a figure with a panel per system, two in a row; the height of a row is in inches."""
    names = labels.short_labels(list(systems))
    plot, panels = panel_grid(len(names), 2, height, sharex=True, sharey=True)
    for name, axes in zip(names.values(), panels, strict=True):
        axes.set_title(name.replace(" (", "\n("))
    return plot, dict(zip(names, panels, strict=True))


def _series_styles(values: pd.Series) -> dict[Any, dict[str, Any]]:
    """Return colour and marker of each of a few values, by their order."""
    styles = cycle(zip(style.ORDINAL_COLOURS, style.PAIR_MARKERS, strict=True))
    return {
        value: {"color": colour, "marker": marker, "markersize": 5}
        for value, (colour, marker) in zip(sorted(values.unique()), styles, strict=False)
    }


def _plot_runs(
    axes: Axes, curves: pd.DataFrame, x: str, by: str, series: Mapping[Any, Mapping[str, Any]]
) -> None:
    line: dict[str, Any] = {"linewidth": 1, "alpha": 0.85, "markevery": [-1]}
    for (value, _), run in curves.groupby([by, "block"], sort=False):
        axes.plot(run[x], run["scaled"], **line, **series[value])
    style.grid_axis(axes, "y")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if curves["metric"].iloc[0] == "perplexity":
        style.set_log_scale(axes, "y")
    else:
        axes.set_ylim(0, 100)


def _add_series_legend(
    plot: Figure, series: Mapping[Any, Mapping[str, Any]], name: Callable[[Any], str]
) -> None:
    handles = [
        Line2D([], [], linewidth=1.4, label=name(value), **own) for value, own in series.items()
    ]
    style.legend_above(plot, handles, min(len(handles), 5), handlelength=2.0)


def _has_learning_outcomes(records: Sequence[Record]) -> bool:
    condition = _evaluates_over("workers", "learning_rate")
    return condition(records) and "accuracy" in set(evaluations(records)["metric"])


@figure("learning_outcomes", title="Which runs learn", needs=_has_learning_outcomes)
def learning_outcome_figure(records: Sequence[Record]) -> Drawing:
    """Runs that learn, by learning rate and number of workers; one marker per run. A run learns if
    its test accuracy exceeds {limit} after the last step.
    """
    return _outcome_drawing(records)


def _varies_rate(records: Sequence[Record]) -> bool:
    selected = _asynchronous_trainings(records)
    rates = {record.run.workload.optimizer.learning_rate for record in selected}
    return len(rates) > 1 and _has_learning_outcomes(selected)


@figure("learning_rates", title="Which asynchronous trainings learn", needs=_varies_rate)
def learning_rate_figure(records: Sequence[Record]) -> Drawing:
    """Asynchronous trainings that learn, by learning rate and number of workers, of all experiments
    with the network's own initial weights and {batch} examples per worker; one marker per run. A
    run learns if its test accuracy exceeds {limit} after the last step.
    """
    selected = _asynchronous_trainings(records)
    return _outcome_drawing(selected)


def _asynchronous_trainings(records: Sequence[Record]) -> list[Record]:
    """Select the runs that evaluate in training, of the largest batch of a worker."""
    evaluated = [
        record
        for record in records
        if record.ok
        and record.run.evaluation.every
        and record.run.system.sync == "async"
        and record.run.workload.initial_limit is None
    ]
    largest = max((record.run.local_batch for record in evaluated), default=0)
    return [record for record in evaluated if record.run.local_batch == largest]


def _outcome_drawing(records: Sequence[Record]) -> Drawing:
    """Plot a marker per run at its learning rate and number of workers, a panel per system."""
    rows = [
        {
            "system": record.run.system.name,
            "learning_rate": record.run.workload.optimizer.learning_rate,
            "workers": record.run.topology.workers,
            "block": record.run.block,
            "outcome": learning_outcome(partial(measure, record)),
        }
        for record in records
        if record.ok
    ]
    outcomes = pd.DataFrame(rows).sort_values(
        ["system", "learning_rate", "workers", "block"], key=table_order, ignore_index=True
    )
    rates = sorted(outcomes["learning_rate"].unique())
    workers = sorted(outcomes["workers"].unique())
    plot, panels = _system_panels(outcomes["system"], 0.6 + 0.45 * len(rates))
    for system, axes in panels.items():
        own = outcomes[outcomes["system"] == system]
        for (rate, number), cell in own.groupby(["learning_rate", "workers"]):
            offsets = _RUN_DISTANCE * (np.arange(len(cell)) - (len(cell) - 1) / 2)
            for x, outcome in zip(workers.index(number) + offsets, cell["outcome"], strict=True):
                marker = _outcome_marker(outcome, style.system_colour(system))
                axes.plot(x, rates.index(rate), **marker)
        axes.set_xticks(range(len(workers)), labels=[f"{number}" for number in workers])
        axes.set_yticks(range(len(rates)), labels=[f"{rate:g}" for rate in rates])
        axes.set_xlim(-0.6, len(workers) - 0.4)
        axes.set_ylim(-0.6, len(rates) - 0.4)
        axes.set_xlabel("workers")
        style.grid_axis(axes, "y")
        axes.label_outer()
    plot.supylabel("learning rate", fontsize=9.5)
    handles = [
        Line2D([], [], label=label, **_outcome_marker(outcome, style.FOREGROUND))
        for outcome, (_, label) in _OUTCOMES.items()
    ]
    style.legend_above(plot, handles, 3)
    values = {"batch": records[0].run.local_batch, "limit": f"{LEARNED_ACCURACY:.0%}"}
    return Drawing(plot, outcomes, values)


def _outcome_marker(outcome: str, colour: str) -> dict[str, Any]:
    fill = {"fillstyle": _OUTCOMES[outcome][0], "markerfacecoloralt": style.BACKGROUND}
    return {"marker": "o", "linestyle": "none", "color": colour, "markeredgecolor": colour, **fill}
