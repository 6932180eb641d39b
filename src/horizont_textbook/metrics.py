"""Chapter 10: accuracy, cross-entropy, perplexity; speedup and its limits."""

from __future__ import annotations

from typing import Any

import autograd.numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.reporting.output import TableOutput
from horizont.reporting.style import MUTED, PAIR_COLOURS, grid_axis
from horizont.reporting.tables import text_table
from horizont_textbook import Array
from horizont_textbook.page import book_figure, columns

WORKERS = np.array([1, 2, 4, 8, 16, 32, 64])

#: Scores that three networks give to the same four examples, whose right class is the first.
SCORES = {
    "confident and right": np.array([[6.0, 0.0, 0.0]] * 4),
    "undecided": np.array([[0.2, 0.0, 0.0]] * 4),
    "confident, once wrong": np.array([[6.0, 0.0, 0.0]] * 3 + [[0.0, 6.0, 0.0]]),
}


def log_softmax(scores: Array) -> Array:
    """Return the logarithms of the probabilities that softmax makes of each row of scores."""
    shifted = scores - np.max(scores, axis=-1, keepdims=True)  # exp of large scores overflows
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def softmax(scores: Array) -> Array:
    """Return a probability for each score: its exponential, divided by the sum of its row."""
    return np.exp(log_softmax(scores))


def cross_entropy(scores: Array, labels: Array) -> Array:
    """Return minus the mean log-probability of the right class."""
    return -np.mean(log_softmax(scores)[np.arange(len(labels)), labels])


def cross_entropy_gradient(scores: Array, labels: Array) -> Array:
    """Return the gradient by the scores: probability minus one for the right class."""
    gradient = softmax(scores)
    gradient[np.arange(len(labels)), labels] -= 1
    return gradient / len(labels)


def accuracy(scores: Array, labels: Array) -> float:
    """Return the fraction of rows whose largest score is that of the right class."""
    return float(np.mean(scores.argmax(axis=-1) == labels))


def entropy(probabilities: Array) -> Array:
    """Return the entropy of each row of probabilities, in nats."""
    surprise = -np.log(np.where(probabilities > 0, probabilities, 1.0))
    return (probabilities * surprise).sum(axis=-1)


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
    workers: Any,
    compute_s: float,
    gradient_bytes: float,
    bytes_per_s: float,
    *,
    strong: bool = False,
) -> Array:
    """Return a lower bound of the duration of a synchronous step with a ring all-reduce.

    The compute time, divided by the workers if they share one batch, plus 2 (n - 1) / n of the
    gradients over each link, without overlap and without waiting.
    """
    n = np.asarray(workers, dtype=np.float64)
    compute = compute_s / n if strong else compute_s
    return compute + 2 * (n - 1) / n * gradient_bytes / bytes_per_s


def expected_slowest(workers: Any, spread: float, draws: int = 20_000, seed: int = 5) -> Array:
    """Estimate the duration of the slowest of some workers, relative to a single one.

    The logarithm of a duration is normally distributed with the spread as standard deviation.
    """
    counts = np.asarray(workers)
    times = np.exp(np.random.default_rng(seed).normal(0, spread, (draws, int(np.max(counts)))))
    slowest = [times[:, :count].max(axis=1).mean() for count in counts]
    return np.array(slowest) / times[:, 0].mean()


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
    frame = pd.DataFrame(rows)
    return text_table(frame, measured=False, numbers=list(frame.columns[1:]))


@book_figure("surprise", height=2.5)
def plot_surprise(figure: Figure) -> tuple[str, pd.DataFrame]:
    """Plot the loss by the probability of the right class, and the entropy of two classes."""
    p = np.linspace(0.002, 0.998, 300)
    two_classes = entropy(np.stack([p, 1 - p], axis=1))
    data = columns(probability=p, cross_entropy=-np.log(p), entropy=two_classes)
    left, right = figure.subplots(1, 2)
    left.plot(p, data["cross_entropy"], color=PAIR_COLOURS[0])
    left.plot(p, 2 * (1 - p), color=MUTED, linestyle=":")
    left.set(xlabel="probability of the right class", title="cross-entropy, nats")
    right.plot(p, data["entropy"], color=PAIR_COLOURS[1])
    right.set(xlabel="probability of the first of two classes", title="entropy, nats")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    caption = (
        "Left: the loss of one example. It grows without bound as the probability of the right "
        "class approaches 0, unlike a linear loss (dotted). Right: the entropy of a prediction, "
        "0 for a certain one, ln 2 = 0.69 for two equally likely classes."
    )
    return caption, data


@book_figure("laws", height=2.8)
def plot_speedup_laws(figure: Figure, serial: float = 0.05) -> tuple[str, pd.DataFrame]:
    """Plot the speedups of Amdahl and Gustafson, and the efficiencies that follow."""
    data = columns(workers=WORKERS)
    left, right = figure.subplots(1, 2)
    for name, law, dash, colour in (
        ("Amdahl: fixed work", amdahl, "-", PAIR_COLOURS[0]),
        ("Gustafson: growing work", gustafson, "--", PAIR_COLOURS[1]),
    ):
        data[name] = law(WORKERS, serial)
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "marker": "o"}
        left.plot(WORKERS, data[name], label=name, markersize=3.5, **style)
        right.plot(WORKERS, data[name] / WORKERS, markersize=3.5, **style)
    left.plot(WORKERS, WORKERS, color=MUTED, linestyle=":", label="ideal")
    left.set_yscale("log", base=2)
    left.yaxis.set_major_locator(FixedLocator(WORKERS.tolist()))
    left.yaxis.set_major_formatter("{x:.0f}")
    left.set_title("speedup")
    right.set(title="efficiency", ylim=(0, 1.05))
    for axes in (left, right):
        _set_worker_axis(axes)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"Speedup and efficiency with a serial fraction of {serial:.0%}. With a fixed amount of "
        f"work the speedup stays below {1 / serial:.0f}, however many workers there are; if the "
        "work grows with the workers, so does the speedup."
        if serial
        else "Without a serial fraction both laws predict the ideal."
    )
    return caption, data


@book_figure("left-out", height=2.8)
def plot_scaling_limits(
    figure: Figure, gradient_mb: float = 44.0, link_mbit: float = 1000.0, compute_s: float = 1.5
) -> tuple[str, pd.DataFrame]:
    """Plot the efficiency that is lost to communication and to the slowest worker."""
    data = columns(workers=WORKERS)
    left, right = figure.subplots(1, 2)
    for name, strong, dash, colour in (
        ("strong scaling", True, "-", PAIR_COLOURS[0]),
        ("weak scaling", False, "--", PAIR_COLOURS[1]),
    ):
        bytes_per_s = link_mbit * 1e6 / 8
        time_s = step_time(WORKERS, compute_s, gradient_mb * 1e6, bytes_per_s, strong=strong)
        data[f"efficiency, {name}"] = compute_s / time_s / (WORKERS if strong else 1)
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "marker": "o"}
        left.plot(WORKERS, data[f"efficiency, {name}"], label=name, markersize=3.5, **style)
    left.set(ylim=(0, 1.05), title="efficiency, with a ring")
    for spread, dash, colour in ((0.05, "-", PAIR_COLOURS[2]), (0.2, "--", PAIR_COLOURS[3])):
        slowest = data[f"slowest, spread {spread:.0%}"] = expected_slowest(WORKERS, spread)
        right.plot(WORKERS, slowest, color=colour, linestyle=dash, marker="o")
        end = (WORKERS[-2], slowest[-2])
        text = f"spread {spread:.0%}"
        right.annotate(text, end, (-6, 4), textcoords="offset points", ha="right")
    right.set(ylim=(0.9, 1.7), title="time of the slowest / of one")
    for axes in (left, right):
        _set_worker_axis(axes)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        f"What the laws leave out. Left: {gradient_mb:g} MB of gradients (as of ResNet-18) over "
        f"links of {link_mbit:g} Mbit/s with a ring, and {compute_s:g} s of computing. Right: "
        "in every step all workers wait for the slowest."
    )
    return caption, data


def _set_worker_axis(axes: Axes) -> None:
    grid_axis(axes, "y")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(WORKERS.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("workers")
