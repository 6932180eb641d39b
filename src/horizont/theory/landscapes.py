"""Chapter 2: landscapes to go down, and what learning rate, momentum and batches do there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.descent import Rule, descend
from horizont.theory.differentiate import forward
from horizont.theory.formula import read_formula
from horizont.theory.questions import Question

Array = NDArray[Any]

#: Ten times steeper along y than along x. Its curvatures are 1 and 10.
BOWL = "f = 0.5 * x * x + 5.0 * y * y"

#: A wave on a parabola: several local minima, one of which is the lowest.
WAVES = "f = 0.0625 * x * x + sin(x)"

#: A line through points.
FIT = "f = mean((x @ w + b - t) * (x @ w + b - t))"

CURVATURES = (1.0, 10.0)


def way(formula: str, start: dict[str, float], rule: Rule, steps: int) -> Array:
    """Go down a landscape.

    Returns
    -------
    Array
        The places, (steps + 1, coordinates).
    """
    given = {name: np.array(value) for name, value in start.items()}
    ways = descend(read_formula(formula), given, list(start), rule, steps)
    return np.stack([ways[name] for name in start], axis=1)


def height(formula: str, **places: Array) -> Array:
    """Tell how high a landscape is at some places."""
    read = read_formula(formula)
    return forward(read, places)[read.result]


def best_plain(low: float, high: float) -> tuple[float, float]:
    """Tell the best learning rate between two curvatures, and what each step leaves.

    2 / (low + high), which leaves (k - 1) / (k + 1) of the distance, for k = high / low.
    """
    ratio = high / low
    return 2 / (low + high), (ratio - 1) / (ratio + 1)


def best_momentum(low: float, high: float) -> tuple[Rule, float]:
    """Tell the best rule with momentum, and what each step leaves in the long run.

    (sqrt(k) - 1) / (sqrt(k) + 1) of the distance, whose square is the momentum (Polyak, 1964).
    """
    left = (np.sqrt(high / low) - 1) / (np.sqrt(high / low) + 1)
    rate = (2 / (np.sqrt(low) + np.sqrt(high))) ** 2
    return Rule(float(rate), float(left**2)), float(left)


def steps_to(left: float, share: float = 1e-6) -> int:
    """Tell how many steps leave no more than a share of the distance."""
    return int(np.ceil(np.log(share) / np.log(left)))


def points(examples: int = 256, seed: int = 3) -> tuple[Array, Array]:
    """Make points around a line: y = 1.5 x - 0.5, with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(examples, 1))
    return x, 1.5 * x - 0.5 + 0.5 * random.normal(size=(examples, 1))


def fitted_by_batches(batch: int, epochs: int, rate: float, seed: int = 4) -> Array:
    """Fit a line by gradients of some examples at a time, in a new order in each epoch.

    Returns
    -------
    Array
        Slope and offset of the line after each step, (steps + 1, 2).
    """
    x, t = points()
    random = np.random.default_rng(seed)
    w, b, ways = -0.5, 1.0, [(-0.5, 1.0)]
    for _ in range(epochs):
        for own in np.split(random.permutation(len(x)), len(x) // batch):
            error = x[own, 0] * w + b - t[own, 0]
            w, b = w - rate * 2 * np.mean(error * x[own, 0]), b - rate * 2 * np.mean(error)
            ways.append((w, b))
    return np.array(ways)


def questions() -> list[Question]:
    """Ask for the ways of three rules on three landscapes.

    The settings are exact in float32, in which two of the frameworks keep them.
    """
    x, t = points(32)
    rules = {
        "plain": Rule(0.125),
        "momentum": Rule(0.125, 0.75),
        "Nesterov": Rule(0.125, 0.75, nesterov=True),
    }
    bowl = {"x": np.array(4.0), "y": np.array(1.0)}
    line = {"x": x, "t": t, "w": np.zeros((1, 1)), "b": np.zeros(1)}
    asked = []
    for name, rule in rules.items():
        asked.append(
            Question(f"bowl, {name}", BOWL, bowl, by=("x", "y"), rule=rule, steps=20),
        )
        asked.append(
            Question(f"waves, {name}", WAVES, {"x": np.array(7.0)}, by=("x",), rule=rule, steps=20)
        )
        asked.append(Question(f"line, {name}", FIT, line, by=("w", "b"), rule=rule, steps=20))
    return asked
