"""The figures of the notebooks with their captions: records in, pictures out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from horizont import analysis
from horizont.records import Record
from horizont.report import figures, words
from horizont.report.picture import Picture, Quote

#: How many of the first examples are searched for some of each class.
SCANNED = 2000


def phase_picture(records: Sequence[Record]) -> Picture:
    """Draw where the time of a step goes, for each system."""
    caption = (
        "Where the time of one step of a worker goes. Bars: instrumented steps, mean over steps, "
        "workers and runs, by phase; “other” is what the phases leave of the step. "
        f"Marks: bare steps, {_of_runs(records)}. The distance between a bar's end and its mark "
        "is what looking cost."
    )
    phases, times = analysis.phases(records), _times(records)
    figure = figures.phase_bars(phases, times)
    return Picture(figure, "phases", caption, pd.concat([phases, times]))


def throughput_picture(records: Sequence[Record]) -> Picture:
    """Draw the training speed of each system."""
    estimates = analysis.throughput(records)
    runs = analysis.run_throughput(records)
    figure = figures.throughput_dots(runs, estimates)
    caption = (
        "Training speed, from bare steps while all workers were at work. Large marks: "
        f"{_of_runs(records)}; short strokes: single runs. A filled mark waits for all workers at "
        "every step, an open one does not."
    )
    return Picture(figure, "throughput", caption, pd.concat([runs, estimates]))


def loss_picture(records: Sequence[Record]) -> Picture:
    """Draw how the loss fell."""
    caption = (
        "Training loss, a line for each run, smoothed by a running median over 21 steps; over the "
        "examples seen (left) and over time (right). Left, lines that lie on each other learn "
        "equally well from the same examples; right, the steeper line learns faster."
    )
    losses = analysis.losses(records)
    return Picture(figures.loss_curves(losses), "loss", caption, losses)


def quality_picture(records: Sequence[Record], about: Any) -> Picture:
    """Draw how good the networks became: on their way if that was looked at, else in the end.

    Parameters
    ----------
    about
        The description of the prepared set, `horizont.data.About`.
    """
    best = about.best_perplexity if about.kind == "text" else about.best_accuracy
    bound = ""
    if about.kind == "text" and best is not None:
        bound = f" No network can have less than {best:,.1f} on these data."
    elif best is not None:
        bound = f" No network can reach more than {best:.1%} on these data."
    measure = "Perplexity" if about.kind == "text" else "Accuracy"
    on_the_way = analysis.looks(records)
    if len(on_the_way):
        caption = (
            f"{measure} on test examples, a line for each run: over the examples seen (left) and "
            f"over time (right).{bound}"
        )
        return Picture(figures.quality_curves(on_the_way, best), "quality", caption, on_the_way)
    caption = f"{measure} on test examples after the last step, a mark for each run.{bound}"
    qualities = analysis.qualities(records)
    return Picture(figures.quality_dots(qualities, best), "quality", caption, qualities)


def startup_picture(records: Sequence[Record]) -> Picture:
    """Draw how long each system takes to get going."""
    startup = analysis.startup(records)
    figure = figures.startup_bars(startup, analysis.systems_of(records))
    caption = (
        "Start-up, from the start of a process to the end of its first step, in the order in which "
        "it happens. It is no part of any training speed."
    )
    return Picture(figure, "startup", caption, startup)


def staleness_picture(records: Sequence[Record]) -> Picture:
    """Draw how stale the gradients were that asynchronous servers applied."""
    caption = (
        "How stale each gradient was when a server applied it, of all runs whose updates were "
        "recorded. A server of several tensors (MXNet) counts each of them apart. Recording slows "
        "the steps, so that the histogram of a run at full speed may differ."
    )
    found = analysis.staleness(records)
    return Picture(figures.staleness_bars(found), "staleness", caption, found)


def distance_picture(rows: Sequence[dict[str, Any]]) -> Picture:
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
    return Picture(figures.distances(found), "distances", caption, found)


def network_picture(name: str, rows: Sequence[dict[str, Any]]) -> Picture:
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
        f"{words.network(name)}: {len(table)} layers, {table['weights'].sum():,} weights. Each "
        "mark is a layer; it receives what the one before it gives, unless an arc leads to it. The "
        "lower charts are logarithmic."
    )
    return Picture(figures.architecture(table), "network", caption, table)


def sample(data: Any) -> Picture | Quote:
    """Show the first examples of a data set.

    Parameters
    ----------
    data
        As of `horizont.data.load`: images become a sheet, text a quotation.
    """
    synthetic = data.about.source != "real"
    if data.about.kind == "text":
        return Quote(" ".join(data.vocabulary[token] for token in data.train_tokens[:120]))
    name = data.about.name
    names = () if synthetic else words.CLASSES.get(name, ())
    labels = np.asarray(data.train_labels[:SCANNED])
    figure = figures.sample_sheet(data.train_images[:SCANNED], labels, names, synthetic=synthetic)
    what = "made-up stand-ins for " if synthetic else ""
    caption = f"Training examples, {what}{words.dataset(name)}: the first of each class."
    return Picture(figure, "samples", caption)


def _times(records: Sequence[Record]) -> pd.DataFrame:
    reasons = analysis.throughput(records)[["system", "reason"]]
    return analysis.step_times(records).merge(reasons, on="system")


def _of_runs(records: Sequence[Record]) -> str:
    """Tell what an interval of this experiment is."""
    level = analysis.throughput(records)["level"].max()
    blocks = len({record.run.block for record in records})
    runs = f"median of {blocks} runs" if blocks > 1 else "a single run"
    return f"{runs} with a {level:.0%} interval" if level > 0 else runs
