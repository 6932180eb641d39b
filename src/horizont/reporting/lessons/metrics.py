"""Pictures of chapter 10: quality, speed, and the laws of more workers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import MUTED, PAIR_COLOURS, book_style, grid_axis, new_figure
from horizont.reporting.tables import Table, text_table
from horizont.theory.performance import amdahl, gustafson, slowest_of, step_time
from horizont.theory.scores import accuracy, cross_entropy, entropy, perplexity, softmax

WORKERS = np.array([1, 2, 4, 8, 16, 32, 64])

#: Three networks on the same four examples, whose right class is the first: scores of each.
JUDGED = {
    "sure and right": np.array([[6, 0, 0], [6, 0, 0], [6, 0, 0], [6, 0, 0]], dtype=np.float64),
    "undecided": np.array([[0.2, 0, 0], [0.2, 0, 0], [0.2, 0, 0], [0.2, 0, 0]]),
    "sure, once wrong": np.array([[6, 0, 0], [6, 0, 0], [6, 0, 0], [0, 6, 0]], dtype=np.float64),
}


def judged() -> Table:
    """Compare what accuracy and cross-entropy say of three networks."""
    labels = np.zeros(4, dtype=np.int64)
    rows = [
        {
            "network": name,
            "accuracy": f"{accuracy(scores, labels):.0%}",
            "cross-entropy": f"{float(cross_entropy(scores, labels)):.3f}",
            "perplexity": f"{perplexity(scores, labels):.2f}",
            "entropy of its answers": f"{float(entropy(softmax(scores)).mean()):.3f}",
        }
        for name, scores in JUDGED.items()
    ]
    frame = pd.DataFrame(rows)
    return text_table(frame, numbers=list(frame.columns[1:]))


def surprise() -> FigureOutput:
    """Draw the loss by the probability of the right class, and the entropy of two classes."""
    p = np.linspace(0.002, 0.998, 300)
    with book_style():
        figure = new_figure(2.5)
        left, right = figure.subplots(1, 2)
        left.plot(p, -np.log(p), color=PAIR_COLOURS[0])
        left.plot(p, 2 * (1 - p), color=MUTED, linestyle=":")
        left.set_xlabel("probability given to the right class")
        left.set_title("cross-entropy, nats")
        right.plot(p, entropy(np.stack([p, 1 - p], axis=1)), color=PAIR_COLOURS[1])
        right.set_xlabel("probability of the first of two classes")
        right.set_title("entropy, nats")
        for axes in (left, right):
            axes.set_ylim(bottom=0)
    caption = (
        "Left: the loss of one example. It grows without bound as the right class is ruled out, "
        "which a straight line (dotted) would forgive. Right: the entropy of an answer, 0 for a "
        "sure one, ln 2 = 0.69 for a coin."
    )
    return FigureOutput(figure, "surprise", caption)


def laws(serial: float = 0.05) -> FigureOutput:
    """Draw the speedups of Amdahl and Gustafson, and the efficiencies that follow."""
    with book_style():
        figure = new_figure(2.8)
        left, right = figure.subplots(1, 2)
        for name, law, dash, colour in (
            ("Amdahl: the same work", amdahl, "-", PAIR_COLOURS[0]),
            ("Gustafson: work that grows", gustafson, "--", PAIR_COLOURS[1]),
        ):
            speedup = law(WORKERS, serial)
            about = {"color": colour, "linestyle": dash, "marker": "o", "markersize": 3.5}
            left.plot(WORKERS, speedup, label=name, **about)
            right.plot(WORKERS, speedup / WORKERS, **about)
        left.plot(WORKERS, WORKERS, color=MUTED, linestyle=":", label="ideal")
        left.set_yscale("log", base=2)
        left.yaxis.set_major_locator(FixedLocator(WORKERS.tolist()))
        left.yaxis.set_major_formatter("{x:.0f}")
        left.set_title("speedup")
        right.set_title("efficiency")
        right.set_ylim(0, 1.05)
        for axes in (left, right):
            _by_workers(axes)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"Speedup and efficiency where a share of {serial:.0%} cannot be divided. With the same "
        f"work for all, no number of workers brings more than {1 / serial:.0f}; if the work grows "
        "with the workers, the speedup goes on growing."
        if serial
        else "Without anything that cannot be divided both laws promise the ideal."
    )
    return FigureOutput(figure, "laws", caption)


def left_out(
    gradient_mb: float = 44.0, link_mbit: float = 1000.0, compute_s: float = 1.5
) -> FigureOutput:
    """Draw what communication and the slowest worker take from the promise."""
    bytes_per_s = link_mbit * 1e6 / 8
    with book_style():
        figure = new_figure(2.8)
        left, right = figure.subplots(1, 2)
        for name, strong, dash, colour in (
            ("one batch shared", True, "-", PAIR_COLOURS[0]),
            ("a batch for each", False, "--", PAIR_COLOURS[1]),
        ):
            time = step_time(WORKERS, compute_s, gradient_mb * 1e6, bytes_per_s, strong=strong)
            speedup = compute_s / time * (1 if strong else WORKERS)
            about = {"color": colour, "linestyle": dash, "marker": "o", "markersize": 3.5}
            left.plot(WORKERS, speedup / WORKERS, label=name, **about)
        left.set_ylim(0, 1.05)
        left.set_title("efficiency, with a ring")
        for spread, dash, colour in ((0.05, "-", PAIR_COLOURS[2]), (0.2, "--", PAIR_COLOURS[3])):
            slow = slowest_of(WORKERS, spread)
            right.plot(WORKERS, slow, color=colour, linestyle=dash, marker="o")
            right.annotate(
                f"spread {spread:.0%}",
                (WORKERS[-2], slow[-2]),
                (-6, 4),
                textcoords="offset points",
                ha="right",
            )
        right.set_ylim(0.9, 1.7)
        right.set_title("time of the slowest / of one")
        for axes in (left, right):
            _by_workers(axes)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        f"What the laws leave out. Left: {gradient_mb:g} MB of gradients (as of ResNet-18) through "
        f"links of {link_mbit:g} Mbit/s with a ring, beside {compute_s:g} s of computing. Right: "
        "at every step all wait for the slowest of them."
    )
    return FigureOutput(figure, "left-out", caption)


def _by_workers(axes: Axes) -> None:
    grid_axis(axes, "y")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(WORKERS.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("workers")
