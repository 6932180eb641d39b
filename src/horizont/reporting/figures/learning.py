"""Loss and evaluation curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from horizont.analysis.learning import (
    evaluations,
    final_metrics,
    losses,
    smoothed,
    time_to_loss,
    time_to_loss_by_run,
)
from horizont.data.prepared import DatasetDescription
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import system_legend_line
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_table

#: Points of a curve; more cannot be seen and enlarge the page.
MAX_POINTS = 100

#: Label of the axis of a metric, and the factor of its values.
_METRIC_AXES = {"accuracy": ("test accuracy, %", 100.0), "perplexity": ("test perplexity", 1.0)}


@figure("loss", title="Training loss")
def loss_figure(records: Sequence[Record]) -> Drawing:
    """Training loss of each run, smoothed by a running median over 21 steps, over the examples
    seen (left) and over time (right). Left, curves that coincide learn equally well from the same
    examples; right, the steeper curve learns faster.
    """
    curves = losses(records)
    if curves.empty:
        return no_drawing("no loss was measured")
    plot = learning_curves(smoothed(curves), "smoothed_loss")
    plot.axes[0].set_ylabel("training loss")
    return Drawing(plot, curves)


@figure("evaluation", title="Evaluation")
def evaluation_figure(records: Sequence[Record], dataset: DatasetDescription) -> Drawing:
    """{metric} on test examples, {points}{bound}."""
    is_text = dataset.kind == "text"
    best = dataset.best_perplexity if is_text else dataset.best_accuracy
    values = {"metric": "Perplexity" if is_text else "Accuracy", "bound": ""}
    if best is not None:
        limit = f"less than {best:,.1f}" if is_text else f"more than {best:.1%}"
        values["bound"] = f"; no network can reach {limit} on these data"
    curves = evaluations(records)
    if len(curves):
        values["points"] = "one line per run: over the examples seen (left) and over time (right)"
        return Drawing(evaluation_curves(curves, best), curves, values)
    values["points"] = "after the last step, one marker per run"
    metrics = final_metrics(records)
    if metrics.empty:
        return no_drawing("the runs were not evaluated")
    return Drawing(final_metric_dots(metrics, best), metrics, values)


def learning_curves(curves: pd.DataFrame, value: str, marker: str | None = None) -> Figure:
    """Plot a line per run over the examples seen (left) and over time (right)."""
    import seaborn as sns

    thinned = pd.concat(
        run.iloc[:: math.ceil(len(run) / MAX_POINTS)]
        for _, run in curves.groupby(["system", "block"], sort=False)
    )
    systems = list(dict.fromkeys(curves["system"]))
    plot = style.new_figure(3.1)
    panels = plot.subplots(1, 2, sharey=True)
    for axes, column in zip(panels, ("examples", "time_s"), strict=True):
        sns.lineplot(
            thinned,
            x=column,
            y=value,
            units="block",
            estimator=None,
            sort=False,
            marker=marker,
            markeredgewidth=0,
            linewidth=1,
            alpha=0.75,
            ax=axes,
            **style.system_line_style(systems),
        )
        style.grid_axis(axes, "y")
        axes.set_xlim(left=0)
    panels[0].set_xlabel("examples seen")
    panels[0].xaxis.set_major_formatter("{x:,.0f}")
    panels[0].xaxis.set_major_locator(MaxNLocator(5))
    panels[1].set_xlabel("seconds from the first step")
    lines = [system_legend_line(system, marker=False) for system in systems]
    style.legend_above(plot, lines, 2, handlelength=2.2)
    return plot


def evaluation_curves(curves: pd.DataFrame, best: float | None = None) -> Figure:
    """Plot the evaluations during training; `best` is the best value that the data allow."""
    metric = str(curves["metric"].iloc[0])
    label, scale = _METRIC_AXES[metric]
    plot = learning_curves(curves.assign(scaled=curves["value"] * scale), "scaled", marker=".")
    plot.axes[0].set_ylabel(label)
    if metric == "perplexity":
        plot.axes[0].set_yscale("log")
    if best is not None:
        for axes in plot.axes:
            axes.axhline(best * scale, color=style.FOREGROUND, linewidth=1, linestyle=":")
    return plot


def final_metric_dots(metrics: pd.DataFrame, best: float | None = None) -> Figure:
    """Plot the evaluation metric of each run; `best` is the best value that the data allow."""
    systems = list(dict.fromkeys(metrics["system"]))
    metric = str(metrics["metric"].iloc[0])
    label, scale = _METRIC_AXES[metric]
    plot = style.new_figure(0.34 * len(systems) + 0.8)
    axes = plot.subplots()
    style.grid_axis(axes, "x")
    axes.set_ylim(len(systems) - 0.4, -0.6)
    axes.set_yticks(range(len(systems)), labels=map(labels.system_label, systems))
    for row, system in enumerate(systems):
        values = metrics.loc[metrics["system"] == system, "value"] * scale
        axes.plot(values, [row] * len(values), alpha=0.8, **style.marker_style(system))
    if best is not None:
        axes.axvline(best * scale, color=style.FOREGROUND, linewidth=1, linestyle=":")
        axes.annotate(
            " best possible ",
            (best * scale, 1.0),
            xycoords=axes.get_xaxis_transform(),
            ha="right" if metric == "accuracy" else "left",
            va="bottom",
            fontsize=8.5,
        )
    axes.set_xlabel(label)
    if metric == "accuracy":
        axes.set_xlim(0, 100)
    else:
        style.set_log_scale(axes, "x")
    return plot


def _reach_a_loss(records: Sequence[Record]) -> bool:
    """Whether several workers trained for enough steps to compare when they reach a loss."""
    has_workers = any(record.run.topology.workers > 1 for record in records)
    return has_workers and len(time_to_loss_by_run(records)) > 0


@table(
    "time_to_loss",
    title="Time to a loss",
    text="Speed in examples is not speed in learning. The table shows how soon each system reached "
    "the loss that all runs reached, counted from its first step and including steps of all kinds.",
    needs=_reach_a_loss,
)
def time_to_loss_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the times until each system reached the loss that all runs reached."""
    columns = ["system", "target_loss", "time_s", "time_low_s", "time_high_s", "examples"]
    return format_table(time_to_loss(records), [*columns, "reached", "planned"])
