"""Chapter 10: accuracy, cross-entropy, perplexity; speedup and its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator
from scipy.special import entr

from horizont.reporting.output import TableOutput
from horizont.reporting.style import MUTED, PAIR_COLOURS
from horizont_textbook import Array, page
from horizont_textbook.loss import cross_entropy, softmax
from horizont_textbook.page import Plotted, columns, power_axis

WORKERS = np.array([1, 2, 4, 8, 16, 32, 64])

#: Scores that three networks give to the same four examples, whose right class is the first.
SCORES = {
    "confident and right": np.array([[6.0, 0.0, 0.0]] * 4),
    "undecided": np.array([[0.2, 0.0, 0.0]] * 4),
    "confident, once wrong": np.array([[6.0, 0.0, 0.0]] * 3 + [[0.0, 6.0, 0.0]]),
}


def accuracy(scores: Array, labels: Array) -> float:
    """Return the fraction of rows whose largest score is that of the right class."""
    return float(np.mean(scores.argmax(axis=-1) == labels))


def entropy(probabilities: Array) -> Array:
    """Return the entropy of each row of probabilities, in nats."""
    return np.asarray(entr(probabilities).sum(axis=-1))


def perplexity(scores: Array, labels: Array) -> float:
    """Return the number of equally likely words of the same cross-entropy."""
    return float(np.exp(cross_entropy(scores, labels)))


def amdahl(workers: Any, serial: float) -> Array:
    """Return the speedup of a fixed amount of work with a serial fraction.

    Amdahl, "Validity of the single processor approach", 1967.
    """
    return 1 / (serial + (1 - serial) / np.asarray(workers))


def gustafson(workers: Any, serial: float) -> Array:
    """Return the speedup of work that grows with the workers.

    Gustafson, "Reevaluating Amdahl's law", 1988; `serial` is a fraction of the parallel time.
    """
    return serial + (1 - serial) * np.asarray(workers)


def step_time(
    workers: Any, compute_s: float, gradient_bytes: float, bytes_per_s: float, strong: bool = False
) -> Array:
    """Return a lower bound of the duration of a synchronous step with a ring all-reduce.

    The compute time, divided by the workers if they share one batch, plus 2 (n - 1) / n of the
    gradients over each link, without overlap and without waiting.
    """
    n = np.asarray(workers, dtype=np.float64)
    compute = compute_s / n if strong else compute_s
    return compute + 2 * (n - 1) / n * gradient_bytes / bytes_per_s


def expected_slowest(workers: Any, spread: float) -> Array:
    """Estimate the duration of the slowest of some workers, relative to a single one.

    The logarithm of a duration is normally distributed with the spread as standard deviation.
    """
    times = np.exp(np.random.default_rng(5).normal(0, spread, (20_000, max(workers))))
    slowest = np.maximum.accumulate(times, axis=1).mean(axis=0)
    return slowest[np.asarray(workers) - 1] / slowest[0]


def metrics_table() -> TableOutput:
    """Format the accuracy and the cross-entropy of three networks."""
    labels = np.zeros(4, dtype=np.int64)
    rows = [
        {
            "network": name,
            "accuracy": f"{accuracy(scores, labels):.0%}",
            "cross-entropy": f"{cross_entropy(scores, labels):.3f}",
            "perplexity": f"{perplexity(scores, labels):.2f}",
            "entropy of its predictions": f"{entropy(softmax(scores)).mean():.3f}",
        }
        for name, scores in SCORES.items()
    ]
    return page.table(rows)


@page.figure("surprise", height=2.5)
def plot_surprise(figure: Figure) -> Plotted:
    """Left: the loss of one example. It grows without bound as the probability of the right class
    approaches 0, unlike a linear loss (dotted). Right: the entropy of a prediction, 0 for a certain
    one, ln 2 = 0.69 for two equally likely classes.
    """
    p = np.linspace(0.002, 0.998, 300)
    two_classes = entropy(np.stack([p, 1 - p], axis=1))
    data = columns(probability=p, cross_entropy=-np.log(p), entropy=two_classes)
    left, right = figure.subplots(1, 2)
    left.plot(p, data["cross_entropy"])
    left.plot(p, 2 * (1 - p), color=MUTED, linestyle=":")
    left.set(xlabel="probability of the right class", title="cross-entropy, nats")
    right.plot(p, data["entropy"], "-", color=PAIR_COLOURS[1])
    right.set(xlabel="probability of the first of two classes", title="entropy, nats")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    return data


@page.figure("laws", height=2.8, legend=3)
def plot_speedup_laws(figure: Figure, serial: float = 0.05) -> Plotted:
    """Speedup and efficiency with a serial fraction of {serial:.0%}. {limit}; if the work grows
    with the workers, so does the speedup.
    """
    data = columns(workers=WORKERS)
    left, right = figure.subplots(1, 2)
    for name, law in (("Amdahl: fixed work", amdahl), ("Gustafson: growing work", gustafson)):
        data[name] = law(WORKERS, serial)
        left.plot(WORKERS, data[name], marker="o", markersize=3.5, label=name)
        right.plot(WORKERS, data[name] / WORKERS, marker="o", markersize=3.5)
    left.plot(WORKERS, WORKERS, color=MUTED, linestyle=":", label="ideal")
    left.set_yscale("log", base=2)
    left.yaxis.set_major_locator(FixedLocator(WORKERS.tolist()))
    left.yaxis.set_major_formatter("{x:.0f}")
    left.set(title="speedup", xlabel="workers")
    right.set(title="efficiency", xlabel="workers", ylim=(0, 1.05))
    for axes in (left, right):
        power_axis(axes, WORKERS.tolist())
    bound = f"below {1 / serial:.0f}, however many workers there are" if serial else "ideal"
    return data, {"limit": f"With a fixed amount of work the speedup stays {bound}"}


@page.figure("left-out", height=2.8, legend=2)
def plot_scaling_limits(
    figure: Figure, gradient_mb: float = 44.0, link_mbit: float = 1000.0, compute_s: float = 1.5
) -> Plotted:
    """What the laws omit. Left: {gradient_mb:g} MB of gradients (as of ResNet-18) over links
    of {link_mbit:g} Mbit/s with a ring, and {compute_s:g} s of computing. Right: in every step all
    workers wait for the slowest.
    """
    data = columns(workers=WORKERS)
    left, right = figure.subplots(1, 2)
    for name, strong in (("strong scaling", True), ("weak scaling", False)):
        traffic = gradient_mb * 1e6, link_mbit * 1e6 / 8
        time_s = step_time(WORKERS, compute_s, *traffic, strong=strong)
        efficiency = data[f"efficiency, {name}"] = compute_s / time_s / (WORKERS if strong else 1)
        left.plot(WORKERS, efficiency, marker="o", markersize=3.5, label=name)
    left.set(ylim=(0, 1.05), title="efficiency, with a ring", xlabel="workers")
    for spread in (0.05, 0.2):
        slowest = data[f"slowest, spread {spread:.0%}"] = expected_slowest(WORKERS, spread)
        right.plot(WORKERS, slowest, marker="o", markersize=3.5)
        end, text = (WORKERS[-2], slowest[-2]), f"spread {spread:.0%}"
        right.annotate(text, end, (-6, 4), textcoords="offset points", ha="right")
    right.set(ylim=(0.9, 1.7), title="time of the slowest / of one", xlabel="workers")
    for axes in (left, right):
        power_axis(axes, WORKERS.tolist())
    return data
