"""Pictures and tables of chapter 11: the processes of the tutorial, and what they came to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from horizont.reporting import labels
from horizont.reporting.lessons.lesson import BOUND, Lesson
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    MUTED,
    PAIR_COLOURS,
    book_style,
    framework_colour,
    grid_axis,
    new_figure,
)
from horizont.reporting.tables import Table, text_table
from horizont.theory.tutorial import shares_of_a_gradient, trained

#: Pictures of who talks to whom: places of the boxes, and the arrows between them.
SHAPES: dict[str, tuple[dict[str, tuple[float, float]], list[tuple[str, str, str]]]] = {
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


def summary(lessons: Sequence[Lesson]) -> Table:
    """Hold all ways side by side."""
    rows = [
        {
            "framework": labels.framework_label(lesson.framework),
            "native": lesson.means,
            "processes": str(len(lesson.members) or "left out"),
            "seconds": "–" if lesson.wall_s is None else f"{lesson.wall_s:.1f}",
            "last loss": "–" if lesson.trained is None else f"{lesson.trained.losses[-1]:.4f}",
            "from one process": "–" if lesson.distance is None else f"{lesson.distance:.0e}",
            "the same": {True: "yes", False: "no", None: "–"}[lesson.ok],
        }
        for lesson in lessons
    ]
    numbers = ["processes", "seconds", "last loss", "from one process"]
    return text_table(pd.DataFrame(rows), numbers=numbers)


def shapes() -> FigureOutput:
    """Draw who talks to whom."""
    with book_style():
        figure = new_figure(2.1)
        for axes, (name, (boxes, arrows)) in zip(
            figure.subplots(1, len(SHAPES)), SHAPES.items(), strict=True
        ):
            axes.axis("off")
            axes.set_xlim(-0.22, 1.22)
            axes.set_ylim(-0.12, 1.1)
            axes.set_title(name, fontsize=9)
            for start, end, label in arrows:
                _arrow(axes, boxes[start], boxes[end], label)
            for label, place in boxes.items():
                _box(axes, label, place)
    caption = (
        "The processes of this chapter. Alone; two that average their gradients with each other; "
        "a server that keeps the weights of two workers; and TensorFlow's form of it, where a "
        "chief hands out the steps. MXNet adds a scheduler, at which all the others meet."
    )
    return FigureOutput(figure, "shapes", caption)


def _box(axes: Axes, label: str, place: tuple[float, float]) -> None:
    box = {
        "boxstyle": "round,pad=0.35",
        "facecolor": BACKGROUND,
        "edgecolor": FOREGROUND,
        "linewidth": 1,
    }
    axes.text(*place, label, ha="center", va="center", fontsize=8, bbox=box)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str) -> None:
    level = start[1] == end[1]
    shrink = {"shrinkA": 23, "shrinkB": 23} if level else {"shrinkA": 11, "shrinkB": 11}
    about = {"arrowstyle": "<|-|>", "color": MUTED, "linewidth": 1, **shrink}
    axes.annotate("", end, start, arrowprops=about)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    place = (x, y + 0.16) if level else (x - 0.08, y)
    axes.text(
        *place, label, color=FOREGROUND, ha="center" if level else "right", va="center", fontsize=8
    )


def shares(workers: int = 2) -> FigureOutput:
    """Draw the gradient of a batch, and those of the shares of some workers."""
    whole, parts = shares_of_a_gradient(workers)
    places = np.arange(whole.size)
    with book_style():
        figure = new_figure(2.6)
        axes = figure.subplots()
        grid_axis(axes, "y")
        for part in parts:
            axes.plot(places, part.ravel(), "o", color=PAIR_COLOURS[0], markersize=4, alpha=0.6)
        axes.plot(places, parts.mean(axis=0).ravel(), "_", color=FOREGROUND, markersize=14)
        axes.plot(places, whole.ravel(), "x", color=PAIR_COLOURS[3], markersize=6)
        axes.set_xticks(places)
        axes.set_xlabel("number of the weight")
        axes.set_ylabel("gradient")
    far = float(np.abs(parts.mean(axis=0) - whole).max())
    caption = (
        f"The gradient of a batch of 32 by each of the 18 weights (crosses), that of each of "
        f"{workers} workers' shares (dots), and the mean of these (lines). The mean of equal "
        f"shares is the whole; here the largest difference is {far:.0e}"
        + ("." if 32 % workers == 0 else f", since 32 examples have no {workers} equal shares.")
    )
    return FigureOutput(figure, "shares", caption)


def losses(lessons: Sequence[Lesson]) -> FigureOutput:
    """Draw the losses of all ways that were started."""
    started = [(lesson, lesson.trained) for lesson in lessons if lesson.trained is not None]
    exact = trained()
    with book_style():
        figure = new_figure(2.9)
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        steps = np.arange(1, len(exact.losses) + 1)
        left.plot(steps, exact.losses, color=FOREGROUND, linewidth=1, label="NumPy, one process")
        for place, (lesson, own) in enumerate(started):
            about = {"marker": "osD^v<>Ph"[place % 9], "color": framework_colour(lesson.framework)}
            kind = "-" if lesson.exact else "--"
            left.plot(steps, own.losses, **about, linestyle=kind, linewidth=0.6, fillstyle="none")
            right.plot(max(lesson.distance or 0.0, 1e-9), -place, **about, linestyle="none")
        left.set_xticks(steps)
        left.set_xlabel("step")
        left.set_ylabel("mean loss of the batch")
        grid_axis(left, "y")
        grid_axis(right, "x")
        right.set_xscale("log")
        right.axvline(BOUND, color=MUTED, linestyle=":")
        right.set_yticks([-p for p in range(len(started))], [s.name for s, _ in started])
        right.set_xlabel("distance of the weights")
    caption = (
        "Left: the mean loss of each step in every way that was started; a black line is one "
        "process in NumPy. Right: how far the last weights are from its. Left of the dotted line "
        "rounding in float32 explains the difference."
    )
    return FigureOutput(figure, "losses", caption)
