"""Pictures of chapter 2: ways down a landscape."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    FOREGROUND,
    GRID,
    MUTED,
    PAIR_COLOURS,
    book_style,
    grid_axis,
    new_figure,
)
from horizont.theory.descent import Rule
from horizont.theory.landscapes import (
    BOWL,
    CURVATURES,
    WAVES,
    best_momentum,
    best_plain,
    fitted_by_batches,
    height,
    points,
    steps_to,
    way,
)

#: Learning rates on a parabola of curvature 1, and what comes of each.
RATES = {0.1: "too small", 0.6: "good", 1.9: "too large", 2.05: "far too large"}

PARABOLA = "f = 0.5 * x * x"


def rates(steps: int = 12) -> FigureOutput:
    """Draw what four learning rates do on a parabola."""
    x = np.linspace(-5, 5, 121)
    with book_style():
        figure = new_figure(2.4)
        panels = figure.subplots(1, len(RATES), sharey=True)
        for axes, (rate, said) in zip(panels, RATES.items(), strict=True):
            places = way(PARABOLA, {"x": 3.5}, Rule(rate), steps)[:, 0]
            axes.plot(x, height(PARABOLA, x=x), color=MUTED, linewidth=1)
            axes.plot(
                places,
                height(PARABOLA, x=places),
                "o-",
                color=PAIR_COLOURS[0],
                markersize=3.5,
                linewidth=1,
            )
            axes.set_title(f"{rate:g}: {said}", fontsize=9)
            axes.set_ylim(-0.5, 12)
            axes.set_xlim(-5, 5)
            axes.set_xlabel("weight")
        panels[0].set_ylabel("loss")
    caption = (
        f"{steps} steps from the same place on a parabola of curvature 1, for four learning rates. "
        "Each step leaves |1 − rate| of the distance: nearly all of it with 0.1, little with 0.6; "
        "1.9 jumps to the other side each time, and beyond 2 each jump ends higher."
    )
    return FigureOutput(figure, "rates", caption)


def ways(learning_rate: float = 0.125, momentum: float = 0.7, steps: int = 30) -> FigureOutput:
    """Draw the ways of three rules down a long bowl."""
    x, y = np.meshgrid(np.linspace(-5, 5, 101), np.linspace(-1.6, 1.6, 81))
    rules = {
        "plain": Rule(learning_rate),
        "momentum": Rule(learning_rate, momentum),
        "Nesterov": Rule(learning_rate, momentum, nesterov=True),
    }
    with book_style():
        figure = new_figure(3.4)
        above, below = figure.subplots(2, 1, height_ratios=[3, 2])
        levels = np.geomspace(0.05, 25, 9)
        above.contour(x, y, height(BOWL, x=x, y=y), levels, colors=[GRID], linewidths=0.8)
        for (name, rule), dash, colour in zip(
            rules.items(), ("-", "--", "-."), PAIR_COLOURS, strict=False
        ):
            places = way(BOWL, {"x": -4.5, "y": 1.2}, rule, steps)
            losses = height(BOWL, x=places[:, 0], y=places[:, 1])
            about = {"color": colour, "linestyle": dash, "label": name}
            above.plot(*places.T, marker="o", markersize=2.5, linewidth=1, **about)
            below.plot(np.maximum(losses, 1e-9), **about)
        above.set_xlim(-5, 5)
        above.set_ylim(-1.6, 1.6)
        above.set_xlabel("gentle direction, curvature 1")
        above.set_ylabel("steep, 10")
        below.set_yscale("log")
        below.set_xlabel("step")
        below.set_ylabel("loss")
        grid_axis(below, "y")
        figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        f"A bowl ten times steeper across than along, with learning rate {learning_rate:g} and "
        f"momentum {momentum:g}. Above: the ways; below: the loss. Plain descent swings across and "
        "creeps along. With momentum, what swings cancels, what goes on adds up; Nesterov looks "
        "ahead, and swings less."
    )
    return FigureOutput(figure, "ways", caption)


def waves(learning_rate: float = 0.3, momentum: float = 0.85) -> FigureOutput:
    """Draw where several starts end on a landscape with local minima."""
    x = np.linspace(-9, 9, 361)
    with book_style():
        figure = new_figure(2.6)
        panels = figure.subplots(1, 2, sharey=True)
        rules = (Rule(learning_rate), Rule(learning_rate, momentum))
        for axes, rule in zip(panels, rules, strict=True):
            axes.plot(x, height(WAVES, x=x), color=MUTED, linewidth=1)
            for start, colour in zip((-8.0, 2.5, 8.0), PAIR_COLOURS, strict=False):
                _roll(axes, start, rule, colour)
            said = f"momentum {rule.momentum:g}" if rule.momentum else "plain"
            axes.set_title(said)
            axes.set_xlabel("weight")
            axes.set_ylim(-1.4, 5.5)
        panels[0].set_ylabel("loss")
    caption = (
        "Three starts on a landscape with local minima, 60 steps each; a ring marks the start, a "
        f"square the end. Learning rate {learning_rate:g}. Plain descent ends in the nearest "
        "minimum; momentum may carry a start over a hill, for good or for bad."
    )
    return FigureOutput(figure, "waves", caption)


def _roll(axes: Axes, start: float, rule: Rule, colour: str) -> None:
    places = way(WAVES, {"x": start}, rule, 60)[:, 0]
    heights = height(WAVES, x=places)
    axes.plot(places, heights, color=colour, linewidth=1, marker=".", markersize=3)
    axes.plot(places[0], heights[0], "o", color=colour, markerfacecolor="none", markersize=8)
    axes.plot(places[-1], heights[-1], "s", color=colour, markersize=7)


def batches(rate: float = 0.1, epochs: int = 4) -> FigureOutput:
    """Draw how a line is fitted by all, some and single examples at a time."""
    x, t = points()
    with book_style():
        figure = new_figure(3.0)
        left, right = figure.subplots(1, 2)
        for (batch, dash), colour in zip(
            {256: "-", 32: "--", 1: ":"}.items(), PAIR_COLOURS, strict=False
        ):
            found = fitted_by_batches(batch, epochs, rate if batch > 1 else rate / 4)
            error = x * found[:, 0] + found[:, 1] - t
            seen = np.arange(len(found)) * batch / len(x)
            about = {"color": colour, "linestyle": dash, "linewidth": 1.2}
            left.plot(*found.T, label=f"{batch}", **about)
            right.plot(seen, np.mean(error**2, axis=0), **about)
        left.plot(1.5, -0.5, "+", color=FOREGROUND, markersize=11, zorder=5)
        left.set_xlabel("slope of the line")
        left.set_ylabel("offset")
        right.set_xlabel("epochs")
        right.set_ylabel("mean squared error")
        right.set_ylim(bottom=0)
        handles, labels = left.get_legend_handles_labels()
        names = [f"batches of {label}" for label in labels]
        figure.legend(handles, names, loc="outside lower center", ncols=3)
    caption = (
        f"A line fitted to 256 noisy points in {epochs} epochs; left the way of its two weights (a "
        "cross marks what the points were made with), right the error. All examples at once make "
        f"{epochs} exact steps; single ones make {256 * epochs:,} noisy ones, with a quarter of "
        "the learning rate, and never come to rest."
    )
    return FigureOutput(figure, "batches", caption)


def found_numbers() -> dict[str, float]:
    """Tell how much momentum shortens the way down the bowl."""
    rate, plain = best_plain(*CURVATURES)
    rule, along = best_momentum(*CURVATURES)
    return {
        "largest_stable_learning_rate": 2 / CURVATURES[1],
        "best_plain_learning_rate": rate,
        "steps_to_a_millionth,_plain": steps_to(plain),
        "best_learning_rate_with_momentum": rule.learning_rate,
        "best_momentum": rule.momentum,
        "steps_to_a_millionth,_momentum": steps_to(along),
    }
