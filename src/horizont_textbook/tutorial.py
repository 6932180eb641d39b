"""Chapter 11: a classifier trained in one process and in several, in every framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.reporting.labels import framework_label
from horizont.reporting.output import TableOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    MUTED,
    PAIR_COLOURS,
    framework_colour,
    grid_axis,
)
from horizont.reporting.tables import text_table
from horizont_textbook import Array
from horizont_textbook.metrics import cross_entropy, cross_entropy_gradient
from horizont_textbook.page import book_figure, columns
from horizont_textbook.processes import relative_distance

if TYPE_CHECKING:
    from horizont_textbook.launch import ProgramRun


STEPS, BATCH, FEATURES, CLASSES = 5, 32, 6, 3
RATE = 0.5

#: Largest distance of trainings in float32 after a few steps: some dozens of roundings.
BOUND = 1e-5

#: Processes of each topology: positions of the boxes, and the arrows between them.
TOPOLOGIES: dict[str, tuple[dict[str, tuple[float, float]], list[tuple[str, str, str]]]] = {
    "one process": ({"trains": (0.5, 0.5)}, []),
    "all-reduce": (
        {"worker 0": (0.08, 0.5), "worker 1": (0.92, 0.5)},
        [("worker 0", "worker 1", "gradients")],
    ),
    "parameter server": (
        {"server": (0.5, 0.88), "worker 0": (0.14, 0.12), "worker 1": (0.86, 0.12)},
        [("worker 0", "server", "gradients,\nweights"), ("worker 1", "server", "")],
    ),
    "with a chief": (
        {"server": (0.5, 0.96), "worker 0": (0.12, 0.48), "worker 1": (0.88, 0.48),
         "chief": (0.5, 0.0)},
        [("worker 0", "server", ""), ("worker 1", "server", ""),
         ("chief", "worker 0", "steps"), ("chief", "worker 1", "")],
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """The losses of all steps and the last weights, (features, classes) and (classes,)."""

    losses: Array
    weight: Array
    bias: Array

    def distance(self, other: Trained) -> float:
        """Return the relative distance of the weights of another training."""
        own, others = (np.concatenate([t.weight.ravel(), t.bias]) for t in (self, other))
        return relative_distance(others, own)


def examples(seed: int = 11) -> tuple[Array, Array]:
    """Draw examples of three linearly separable classes, a batch for each step."""
    rng = np.random.default_rng(seed)
    planes = rng.normal(size=(FEATURES, CLASSES))
    x = rng.normal(size=(STEPS, BATCH, FEATURES)).astype(np.float32)
    return x, (x @ planes).argmax(axis=-1)


def gradients(x: Array, labels: Array, weight: Array, bias: Array) -> tuple[float, Array, Array]:
    """Compute the loss of some examples, and its gradients by weight and bias."""
    scores = x.astype(np.float64) @ weight + bias
    by_scores = cross_entropy_gradient(scores, labels)
    return float(cross_entropy(scores, labels)), x.T @ by_scores, by_scores.sum(axis=0)


def train(workers: int = 1) -> Trained:
    """Train from zero weights; workers share each batch and average their gradients."""
    weight, bias, losses = np.zeros((FEATURES, CLASSES)), np.zeros(CLASSES), []
    for x, labels in zip(*examples(), strict=True):
        parts = [slice(rank, None, workers) for rank in range(workers)]
        results = [gradients(x[part], labels[part], weight, bias) for part in parts]
        loss, by_weight, by_bias = (sum(values) / workers for values in zip(*results, strict=True))
        weight, bias = weight - RATE * by_weight, bias - RATE * by_bias
        losses.append(loss)
    return Trained(np.array(losses), weight, bias)


def per_worker_gradients(workers: int) -> tuple[Array, Array]:
    """Compute the gradient of the first batch, and those of the part of each worker."""
    x, labels = (array[0] for array in examples())
    start = np.zeros((FEATURES, CLASSES)), np.zeros(CLASSES)
    parts = [slice(rank, None, workers) for rank in range(workers)]
    by_part = [gradients(x[part], labels[part], *start)[1] for part in parts]
    return gradients(x, labels, *start)[1], np.stack(by_part)


@book_figure("topologies", height=2.1)
def plot_topologies(figure: Figure) -> tuple[str, pd.DataFrame]:
    """Plot which processes communicate with each other."""
    panels = figure.subplots(1, len(TOPOLOGIES))
    rows = []
    for axes, (name, (boxes, arrows)) in zip(panels, TOPOLOGIES.items(), strict=True):
        axes.axis("off")
        axes.set(xlim=(-0.22, 1.22), ylim=(-0.12, 1.1))
        axes.set_title(name, fontsize=9)
        for start, end, label in arrows:
            rows.append({"topology": name, "process": start, "communicates with": end})
            _plot_arrow(axes, boxes[start], boxes[end], label)
        for label, position in boxes.items():
            box = {"boxstyle": "round,pad=0.35", "facecolor": BACKGROUND, "edgecolor": FOREGROUND}
            axes.text(*position, label, ha="center", va="center", fontsize=8, bbox=box)
    caption = (
        "The processes of this chapter. One process; two that average their gradients with each "
        "other; a server that stores the weights of two workers; and TensorFlow's form of it, "
        "where a chief dispatches the steps. MXNet adds a scheduler, at which all processes "
        "register."
    )
    return caption, pd.DataFrame(rows)


def _plot_arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str
) -> None:
    is_level = start[1] == end[1]
    gap = 23 if is_level else 11
    style = {"arrowstyle": "<|-|>", "color": MUTED, "linewidth": 1, "shrinkA": gap, "shrinkB": gap}
    axes.annotate("", end, start, arrowprops=style)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    position = (x, y + 0.16) if is_level else (x - 0.08, y)
    axes.text(*position, label, ha="center" if is_level else "right", va="center", fontsize=8)


@book_figure("gradients", height=2.6)
def plot_gradient_shares(figure: Figure, workers: int = 2) -> tuple[str, pd.DataFrame]:
    """Plot the gradient of a batch, and those of the part of each worker."""
    whole, parts = per_worker_gradients(workers)
    numbers, mean = np.arange(whole.size), parts.mean(axis=0).ravel()
    axes = figure.subplots()
    grid_axis(axes, "y")
    for part in parts:
        style: dict[str, Any] = {"color": PAIR_COLOURS[0], "markersize": 4, "alpha": 0.6}
        axes.plot(numbers, part.ravel(), "o", **style)
    axes.plot(numbers, mean, "_", color=FOREGROUND, markersize=14)
    axes.plot(numbers, whole.ravel(), "x", color=PAIR_COLOURS[3], markersize=6)
    axes.set(xticks=numbers, xlabel="number of the weight", ylabel="gradient")
    difference = float(np.abs(mean - whole.ravel()).max())
    caption = (
        f"The gradient of a batch of 32 by each of the 18 weights (crosses), that of the part of "
        f"each of {workers} workers (dots), and the mean of these (lines). The mean over equal "
        f"parts is the gradient of the batch; here the largest difference is {difference:.0e}"
        + ("." if BATCH % workers == 0 else f", since 32 examples have no {workers} equal parts.")
    )
    by_worker = {f"worker {rank}": part.ravel() for rank, part in enumerate(parts)}
    return caption, columns(weight=numbers, batch=whole.ravel(), mean=mean, **by_worker)


@book_figure("losses", height=2.9)
def plot_losses(figure: Figure, runs: Sequence[ProgramRun]) -> tuple[str, pd.DataFrame]:
    """Plot the losses of all programs that were run, and the distance of their weights."""
    finished = [(run, run.trained) for run in runs if run.trained is not None]
    reference = train()
    steps = np.arange(1, len(reference.losses) + 1)
    data = columns(step=steps, NumPy=reference.losses)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    left.plot(steps, reference.losses, color=FOREGROUND, linewidth=1, label="NumPy, one process")
    for number, (run, trained) in enumerate(finished):
        data[run.name] = trained.losses
        style: dict[str, Any] = {"color": framework_colour(run.program.framework)}
        style["marker"] = "osD^v<>Ph"[number % 9]
        dash = "-" if run.program.exact else "--"
        left.plot(steps, trained.losses, **style, ls=dash, linewidth=0.6, fillstyle="none")
        right.plot(max(run.distance or 0.0, 1e-9), -number, **style, linestyle="none")
    left.set(xticks=steps, xlabel="step", ylabel="mean loss of the batch")
    grid_axis(left, "y")
    grid_axis(right, "x")
    right.set_xscale("log")
    right.axvline(BOUND, color=MUTED, linestyle=":")
    right.set_yticks([-n for n in range(len(finished))], [run.name for run, _ in finished])
    right.set_xlabel("distance of the weights")
    caption = (
        "Left: the mean loss of each step in every program that was run; the dark line is one "
        "process in NumPy. Right: the relative distance of the last weights from its weights. "
        "Left of the dotted line, rounding in float32 explains the difference."
    )
    return caption, data


def summary_table(runs: Sequence[ProgramRun]) -> TableOutput:
    """Format the results of all programs."""
    rows = [
        {
            "framework": framework_label(run.program.framework),
            "mechanism": run.program.mechanism,
            "processes": str(len(run.processes) or "not run"),
            "seconds": "–" if run.wall_s is None else f"{run.wall_s:.1f}",
            "last loss": "–" if run.trained is None else f"{run.trained.losses[-1]:.4f}",
            "distance": "–" if run.distance is None else f"{run.distance:.0e}",
            "equal": {True: "yes", False: "no", None: "–"}[run.ok],
        }
        for run in runs
    ]
    return text_table(
        pd.DataFrame(rows), ["processes", "seconds", "last loss", "distance"], measured=False
    )
