"""Pictures of chapter 8: gradient descent with gradients of old weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.reporting import labels
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    FOREGROUND,
    MUTED,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.reporting.tables import Table, text_table
from horizont.theory.staleness import (
    best_product,
    delayed_descent,
    found_limit,
    slowest_root,
    stability_limit,
    steps_to,
    trained_late,
)

Array = NDArray[Any]

DELAYS = np.arange(17)
DASHES = ("-", "--", "-.", ":")

#: How old every gradient is in the training of a small network.
IMPOSED = (0, 1, 4, 16)


def region() -> FigureOutput:
    """Draw for each delay which products of learning rate and curvature converge."""
    limits = np.array([stability_limit(int(delay)) for delay in DELAYS])
    best = np.array([best_product(int(delay))[0] for delay in DELAYS])
    found = np.array([found_limit(int(delay), 1e-9) for delay in DELAYS])
    with book_style():
        figure = new_figure(3.0)
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        left.fill_between(DELAYS, 0.01, limits, color=PAIR_COLOURS[2], alpha=0.16, linewidth=0)
        left.plot(DELAYS, limits, color=PAIR_COLOURS[3], label="limit: formula")
        left.plot(DELAYS, found, "o", color=PAIR_COLOURS[3], markersize=4, label="limit: roots")
        left.plot(DELAYS, best, "s--", color=PAIR_COLOURS[0], markersize=3.5, label="fastest")
        left.set_yscale("log")
        left.set_ylim(0.01, 4)
        left.set_ylabel("learning rate × curvature")
        left.annotate("diverges", (9, 1.2))
        left.annotate("converges", (0.6, 0.016))
        left.set_xlabel("delay, steps")
        right.plot(DELAYS, [steps_to(best_product(int(d))[1]) for d in DELAYS], "s--",
                   color=PAIR_COLOURS[0], markersize=3.5)  # fmt: skip
        right.set_xlabel("delay, steps")
        right.set_title("steps to a millionth, at best")
        grid_axis(right, "y")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "Gradient descent on a parabola with gradients of old weights. Left: below the upper line "
        "it converges; the dots are found from the roots of the characteristic polynomial alone. "
        "The lower line converges fastest. Right: even at its best each step of delay costs "
        f"about {steps_to(best_product(16)[1]) / 17:.0f} steps."
    )
    return FigureOutput(figure, "region", caption)


def ways(product: float = 0.35, delay: int = 4, steps: int = 60) -> FigureOutput:
    """Draw the weight step by step, without and with a delay, and the roots behind it."""
    with book_style():
        figure = new_figure(2.8)
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        for late, dash, colour in ((0, "--", PAIR_COLOURS[0]), (delay, "-", PAIR_COLOURS[3])):
            way = np.clip(delayed_descent(product, late, steps), -4, 4)
            left.plot(way, dash, color=colour, label=f"{late} steps late")
        left.axhline(0, color=MUTED, linewidth=0.8)
        left.set_ylim(-2.2, 2.2)
        left.set_xlabel("step")
        left.set_ylabel("weight")
        left.legend(loc="upper right")
        products = np.linspace(0.002, 1.2, 200)
        sizes = [slowest_root(float(each), delay) for each in products]
        right.plot(products, sizes, color=PAIR_COLOURS[3])
        right.plot(product, slowest_root(product, delay), "o", color=FOREGROUND)
        right.axhline(1, color=MUTED, linestyle=":")
        right.axvline(stability_limit(delay), color=MUTED, linestyle=":")
        right.set_xlabel("learning rate × curvature")
        right.set_title("left after a step")
    left_over = slowest_root(product, delay)
    caption = (
        f"A parabola with learning rate × curvature {product:g}. Left: its weight with new "
        f"gradients and with gradients {delay} steps old. Right: what a step leaves in the long "
        f"run, {left_over:.3f} here (dot); the limit for this delay is {stability_limit(delay):.3f}"
        " (dotted)."
    )
    return FigureOutput(figure, "delayed-ways", caption)


def sides(answers: Mapping[str, Array], beyond: Mapping[str, Array]) -> Table:
    """Show where each framework's optimizer ends on both sides of the limit.

    Parameters
    ----------
    answers, beyond
        Ways below and above it, by framework.
    """
    rows = [
        {
            "framework": labels.framework_label(name),
            "0.594, after 30 steps": f"{_size(answers[name], 30):.3f}",
            "after 60 steps": f"{_size(answers[name], 60):.3f}",
            "0.656, after 30": f"{_size(beyond[name], 30):.3f}",
            "after 60": f"{_size(beyond[name], 60):.3f}",
        }
        for name in answers
    ]
    frame = pd.DataFrame(rows)
    return text_table(frame, numbers=list(frame.columns[1:]))


def _size(way: Array, step: int) -> float:
    """Tell the largest distance around a step: the way swings through zero."""
    return float(np.abs(np.ravel(way)[step - 7 : step + 1]).max())


def network(
    x: Array, labels: Array, about: str, rate: float = 0.2, steps: int = 160
) -> FigureOutput:
    """Draw how a small network learns with gradients of each age.

    Parameters
    ----------
    about
        What the images are.
    """
    ends = {}
    with book_style():
        figure = new_figure(2.9)
        axes = figure.subplots()
        for place, delay in enumerate(IMPOSED):
            losses = trained_late(x, labels, delay, rate, steps)
            ends[delay] = losses[-20:].mean()
            smooth = np.convolve(losses, np.ones(8) / 8, mode="valid")
            axes.plot(np.arange(len(smooth)) + 8, np.minimum(smooth, 4), DASHES[place],
                      color=PAIR_COLOURS[place], label=f"{delay} steps late")  # fmt: skip
        axes.set_ylim(0, 3.2)
        axes.set_xlabel("step")
        axes.set_ylabel("loss, mean of 8 steps")
        grid_axis(axes, "y")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    told = ", ".join(f"{end:.2f}" for end in ends.values())
    caption = (
        f"A network of 24 hidden neurons on {about}, in NumPy, learning rate {rate:g}, every "
        f"gradient 0, 1, 4 or 16 steps old. Mean loss of the last 20 of {steps} steps: {told}."
    )
    return FigureOutput(figure, "late-network", caption)


def end_losses(x: Array, labels: Array, rate: float, steps: int = 160) -> dict[str, float]:
    """Tell the mean loss of the last 20 steps for each age of the gradients."""
    return {
        f"loss, {delay} late": float(trained_late(x, labels, delay, rate, steps)[-20:].mean())
        for delay in IMPOSED
    }
