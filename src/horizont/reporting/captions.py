"""The figures of the notebooks with their captions: records in, pictures out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from horizont import analysis
from horizont.records.record import Record
from horizont.reporting import figures, labels
from horizont.reporting.page import FigureOutput, TextSample

#: How many of the first examples are searched for some of each class.
EXAMPLES_SCANNED = 2000


def phase_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw where the time of a step goes, for each system."""
    caption = (
        "Where the time of one step of a worker goes. Bars: instrumented steps, mean over steps, "
        "workers and runs, by phase; “other” is what the phases leave of the step. "
        f"Marks: bare steps, {_interval_description(records)}. The distance between a bar's end and its mark "
        "is what looking cost."
    )
    phases, times = analysis.phases(records), _step_times_with_reasons(records)
    figure = figures.phase_bars(phases, times)
    return FigureOutput(figure, "phases", caption, pd.concat([phases, times]))


def throughput_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw the training speed of each system."""
    estimates = analysis.throughput_by_system(records)
    runs = analysis.throughput_by_run(records)
    figure = figures.throughput_dots(runs, estimates)
    caption = (
        "Training speed, from bare steps while all workers were at work. Large marks: "
        f"{_interval_description(records)}; short strokes: single runs. A filled mark waits for all workers at "
        "every step, an open one does not."
    )
    return FigureOutput(figure, "throughput", caption, pd.concat([runs, estimates]))


def loss_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw how the loss fell."""
    caption = (
        "Training loss, a line for each run, smoothed by a running median over 21 steps; over the "
        "examples seen (left) and over time (right). Left, lines that lie on each other learn "
        "equally well from the same examples; right, the steeper line learns faster."
    )
    losses = analysis.losses(records)
    return FigureOutput(figures.loss_curves(losses), "loss", caption, losses)


def evaluation_figure(records: Sequence[Record], dataset: Any) -> FigureOutput:
    """Draw how good the networks became: on their way if that was looked at, else in the end.

    Parameters
    ----------
    about
        The description of the prepared set, `horizont.data.About`.
    """
    best = dataset.best_perplexity if dataset.kind == "text" else dataset.best_accuracy
    bound = ""
    if dataset.kind == "text" and best is not None:
        bound = f" No network can have less than {best:,.1f} on these data."
    elif best is not None:
        bound = f" No network can reach more than {best:.1%} on these data."
    measure = "Perplexity" if dataset.kind == "text" else "Accuracy"
    on_the_way = analysis.evaluations(records)
    if len(on_the_way):
        caption = (
            f"{measure} on test examples, a line for each run: over the examples seen (left) and "
            f"over time (right).{bound}"
        )
        return FigureOutput(
            figures.evaluation_curves(on_the_way, best), "quality", caption, on_the_way
        )
    caption = f"{measure} on test examples after the last step, a mark for each run.{bound}"
    qualities = analysis.final_metrics(records)
    return FigureOutput(figures.final_metric_dots(qualities, best), "quality", caption, qualities)


def startup_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw how long each system takes to get going."""
    startup = analysis.startup_times(records)
    figure = figures.startup_bars(startup, analysis.systems_of(records))
    caption = (
        "Start-up, from the start of a process to the end of its first step, in the order in which "
        "it happens. It is no part of any training speed."
    )
    return FigureOutput(figure, "startup", caption, startup)


def staleness_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw how stale the gradients were that asynchronous servers applied."""
    caption = (
        "How stale each gradient was when a server applied it, of all runs whose updates were "
        "recorded. A server of several tensors (MXNet) counts each of them apart. Recording slows "
        "the steps, so that the histogram of a run at full speed may differ."
    )
    found = analysis.staleness(records)
    return FigureOutput(figures.staleness_bars(found), "staleness", caption, found)


def distance_figure(rows: Sequence[dict[str, Any]]) -> FigureOutput:
    """Draw how far the frameworks are apart.

    Parameters
    ----------
    rows
        The rows of a proof.
    """
    caption = (
        "Largest distance over all tensors between two frameworks, from the initial weights to the "
        "updates after some steps, then the tracked statistics and the optimizer's state, if there "
        "are any; relative to the size of the tensor. The black lines are the bounds. The grey "
        "bars are as high as a framework is apart from itself, if only the rounding changes. A "
        "red ring marks a pair that is beyond its bound."
    )
    found = pd.DataFrame(list(rows))
    return FigureOutput(figures.distance_chart(found), "distances", caption, found)


def network_figure(name: str, rows: Sequence[dict[str, Any]]) -> FigureOutput:
    """Draw a network.

    Parameters
    ----------
    name
        As in the settings.
    rows
        One for each layer: ``layer, kind, sources, outputs, weights``.
    """
    table = pd.DataFrame(list(rows))
    caption = (
        f"{labels.network_label(name)}: {len(table)} layers, {table['weights'].sum():,} weights. Each "
        "mark is a layer; it receives what the one before it gives, unless an arc leads to it. The "
        "lower charts are logarithmic."
    )
    return FigureOutput(figures.architecture_chart(table), "network", caption, table)


def dataset_samples(data: Any) -> FigureOutput | TextSample:
    """Show the first examples of a data set.

    Parameters
    ----------
    data
        As of `horizont.data.load`: images become a sheet, text a quotation.
    """
    synthetic = data.about.source != "real"
    if data.about.kind == "text":
        return TextSample(" ".join(data.vocabulary[token] for token in data.train_tokens[:120]))
    name = data.about.name
    names = () if synthetic else labels.CLASS_NAMES.get(name, ())
    classes = np.asarray(data.train_labels[:EXAMPLES_SCANNED])
    figure = figures.sample_sheet(
        data.train_images[:EXAMPLES_SCANNED], classes, names, synthetic=synthetic
    )
    what = "made-up stand-ins for " if synthetic else ""
    caption = f"Training examples, {what}{labels.dataset_label(name)}: the first of each class."
    return FigureOutput(figure, "samples", caption)


def _step_times_with_reasons(records: Sequence[Record]) -> pd.DataFrame:
    reasons = analysis.throughput_by_system(records)[["system", "reason"]]
    return analysis.instrumentation_overhead(records).merge(reasons, on="system")


def _interval_description(records: Sequence[Record]) -> str:
    """Tell what an interval of this experiment is."""
    level = analysis.throughput_by_system(records)["level"].max()
    blocks = len({record.run.block for record in records})
    runs = f"median of {blocks} runs" if blocks > 1 else "a single run"
    return f"{runs} with a {level:.0%} interval" if level > 0 else runs
