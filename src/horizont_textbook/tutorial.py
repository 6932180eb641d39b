"""Chapter 11: a classifier trained in one process and in several, in every framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import autograd.numpy as np
import pandas as pd
from autograd import grad, value_and_grad
from autograd.misc.flatten import flatten
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
from horizont_textbook import Array, page
from horizont_textbook.loss import cross_entropy
from horizont_textbook.page import Plotted, columns, format_distance, relative_distance

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
        own, others = (flatten((each.weight, each.bias))[0] for each in (self, other))
        return relative_distance(others, own)


def examples() -> tuple[Array, Array]:
    """Draw examples of three linearly separable classes, a batch for each step."""
    rng = np.random.default_rng(11)
    planes = rng.normal(size=(FEATURES, CLASSES))
    x = rng.normal(size=(STEPS, BATCH, FEATURES)).astype(np.float32)
    return x, (x @ planes).argmax(axis=-1)


def loss(weights: tuple[Array, Array], x: Array, labels: Array) -> Any:
    """Return the mean loss of some examples."""
    weight, bias = weights
    return cross_entropy(x @ weight + bias, labels)


def train(workers: int = 1) -> Trained:
    """Train from zero weights; workers share each batch and average their gradients."""
    weights, losses = (np.zeros((FEATURES, CLASSES)), np.zeros(CLASSES)), []
    for x, labels in zip(*examples(), strict=True):
        parts = [slice(rank, None, workers) for rank in range(workers)]
        results = [value_and_grad(loss)(weights, x[part], labels[part]) for part in parts]
        gradients = zip(*(gradient for _, gradient in results), strict=True)
        means = [sum(by_worker) / workers for by_worker in gradients]
        weights = (weights[0] - RATE * means[0], weights[1] - RATE * means[1])
        losses.append(sum(value for value, _ in results) / workers)
    return Trained(np.array(losses), *weights)


@page.figure("topologies", height=2.1)
def plot_topologies(figure: Figure) -> Plotted:
    """The processes of this chapter. One process; two that average their gradients with each other;
    a server that stores the weights of two workers; and TensorFlow's form of it, where a chief
    dispatches the steps. MXNet adds a scheduler, at which all processes register.
    """
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
    return pd.DataFrame(rows)


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


@page.figure("gradients", height=2.6, grid="y")
def plot_gradient_shares(figure: Figure, workers: int = 2) -> Plotted:
    """The gradient of a batch of 32 by each of the 18 weights (crosses), that of the part of each
    of {workers} workers (dots), and the mean of these (lines). The mean over equal parts is the
    gradient of the batch; here the largest difference is {difference:.0e}{reason}.
    """
    x, labels = (array[0] for array in examples())
    start = np.zeros((FEATURES, CLASSES)), np.zeros(CLASSES)
    rows = [slice(None), *(slice(rank, None, workers) for rank in range(workers))]
    whole, *parts = (grad(loss)(start, x[part], labels[part])[0] for part in rows)
    mean = np.mean(parts, axis=0).ravel()
    data = columns(weight=np.arange(whole.size), batch=whole.ravel(), mean=mean)
    axes = figure.subplots()
    for rank, part in enumerate(parts):
        data[f"worker {rank}"] = part.ravel()
        axes.plot(part.ravel(), "o", color=PAIR_COLOURS[0], markersize=4, alpha=0.6)
    axes.plot(mean, "_", color=FOREGROUND, markersize=14)
    axes.plot(data["batch"], "x", color=PAIR_COLOURS[3], markersize=6)
    axes.set(xticks=data["weight"], xlabel="number of the weight", ylabel="gradient")
    reason = f", since {BATCH} examples have no {workers} equal parts" if BATCH % workers else ""
    return data, {"difference": np.abs(mean - whole.ravel()).max(), "reason": reason}


@page.figure("losses", height=2.9)
def plot_losses(figure: Figure, runs: Sequence[ProgramRun]) -> Plotted:
    """Left: the mean loss of each step in every program that was run; the dark line is one process
    in NumPy. Right: the relative distance of the last weights from its weights. Left of the dotted
    line, rounding in float32 explains the difference.
    """
    finished = [(run, run.trained) for run in runs if run.trained is not None]
    reference = train()
    steps = np.arange(1, len(reference.losses) + 1)
    data = columns(step=steps, NumPy=reference.losses)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    left.plot(steps, reference.losses, "-", color=FOREGROUND, linewidth=1)
    for number, (run, trained) in enumerate(finished):
        data[run.program.name] = trained.losses
        style: dict[str, Any] = {"color": framework_colour(run.program.framework)}
        style["marker"] = "osD^v<>Ph"[number % 9]
        dash = "-" if run.program.exact else "--"
        left.plot(steps, trained.losses, **style, ls=dash, linewidth=0.6, fillstyle="none")
        right.plot(max(run.distance or 0.0, 1e-9), -number, **style, linestyle="none")
    left.set(xticks=steps, xlabel="step", ylabel="mean loss of the batch")
    grid_axis(left, "y")
    grid_axis(right, "x")
    right.set(xscale="log", xlabel="distance of the weights")
    right.axvline(BOUND, color=MUTED, linestyle=":")
    right.set_yticks([-n for n in range(len(finished))], [run.program.name for run, _ in finished])
    return data


def summary_table(runs: Sequence[ProgramRun]) -> TableOutput:
    """Format the results of all programs."""
    rows = [
        {
            "framework": framework_label(run.program.framework),
            "mechanism": run.program.mechanism,
            "processes": str(len(run.processes) or "not run"),
            "seconds": "–" if run.wall_s is None else f"{run.wall_s:.1f}",
            "last loss": "–" if run.trained is None else f"{run.trained.losses[-1]:.4f}",
            "distance": format_distance(run.distance),
            "equal": {True: "yes", False: "no", None: "–"}[run.ok],
        }
        for run in runs
    ]
    return page.table(rows, text=["mechanism", "equal"])
