"""Chapter 8: gradient descent with gradients of old weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.descent import Rule
from horizont.theory.differentiate import forward, gradients
from horizont.theory.formula import read_formula
from horizont.theory.landscapes import BOWL
from horizont.theory.questions import Question

Array = NDArray[Any]

PARABOLA = "f = 0.5 * x * x"

#: A small network: one hidden layer, scores for classes.
NETWORK = "f = cross_entropy(tanh(x @ w + b) @ v + c, labels)"
LEARNED = ("w", "b", "v", "c")


def delayed_descent(product: float, delay: int, steps: int) -> Array:
    """Go down a parabola by gradients of old weights: w[t+1] = w[t] - product * w[t-delay].

    Parameters
    ----------
    product
        Learning rate times curvature.

    Returns
    -------
    Array
        The weight after each step, (steps + 1,); it starts from 1, and has always been there.
    """
    way = [1.0]
    for step in range(steps):
        way.append(way[step] - product * way[max(0, step - delay)])
    return np.array(way)


def slowest_root(product: float, delay: int) -> float:
    """Tell what a step leaves of the distance in the long run.

    The largest size of a root of z^(delay+1) - z^delay + product, the characteristic polynomial
    of the recurrence; above 1 the training diverges.
    """
    polynomial = np.zeros(delay + 2)
    polynomial[0] = 1.0
    polynomial[1] -= 1.0
    polynomial[-1] += product
    return float(np.abs(np.roots(polynomial)).max())


def stability_limit(delay: int) -> float:
    """Tell the product of learning rate and curvature at which delayed descent stops to converge.

    2 sin(pi / (2 (2 delay + 1))): Levin and May, A note on difference-delay equations,
    Theoretical Population Biology 9, 1976 (there as 2 cos(delay pi / (2 delay + 1))).
    """
    return float(2 * np.sin(np.pi / (2 * (2 * delay + 1))))


def found_limit(delay: int, rounding: float = 1e-12) -> float:
    """Find the same limit by halving an interval, from the roots alone."""
    low, high = 0.0, 4.0
    while high - low > rounding:
        middle = (low + high) / 2
        low, high = (middle, high) if slowest_root(middle, delay) < 1 else (low, middle)
    return (low + high) / 2


def best_product(delay: int) -> tuple[float, float]:
    """Tell the product that converges fastest, and what each step leaves then.

    delay^delay / (delay+1)^(delay+1), where the two largest roots meet, at delay / (delay + 1).
    Without a delay: 1, which leaves nothing.
    """
    return float(delay**delay / (delay + 1) ** (delay + 1)), delay / (delay + 1)


def steps_to(left: float, share: float = 1e-6) -> int:
    """Tell how many steps leave no more than a share of the distance."""
    return 1 if left == 0 else int(np.ceil(np.log(share) / np.log(left)))


def trained_late(
    x: Array, labels: Array, delay: int, rate: float, steps: int, *, hidden: int = 24, seed: int = 8
) -> Array:
    """Train the small network with every gradient so many steps old.

    Parameters
    ----------
    x, labels
        Batches: (batches, examples, features) and (batches, examples), taken in turn.

    Returns
    -------
    Array
        The loss of each step's batch on the newest weights, (steps,).
    """
    random = np.random.default_rng(seed)
    features, classes = x.shape[-1], int(labels.max()) + 1
    weights = {
        "w": random.normal(0, features**-0.5, (features, hidden)),
        "b": np.zeros(hidden),
        "v": random.normal(0, hidden**-0.5, (hidden, classes)),
        "c": np.zeros(classes),
    }
    formula, seen, losses = read_formula(NETWORK), [weights], []
    for step in range(steps):
        batch = {"x": x[step % len(x)], "labels": labels[step % len(x)]}
        losses.append(float(forward(formula, {**seen[-1], **batch})["f"]))
        slopes = gradients(formula, {**seen[0], **batch}, LEARNED)
        seen.append({name: seen[-1][name] - rate * slopes[name] for name in LEARNED})
        seen = seen[-(delay + 1) :]
    return np.array(losses)


def questions() -> list[Question]:
    """Ask for delayed ways, on both sides of the limit, and of a small network.

    The rates are exact in float32, in which two of the frameworks keep them.
    """
    bowl = {"x": np.array(4.0), "y": np.array(1.0)}
    one = {"x": np.array(1.0)}
    asked = [
        Question(f"bowl, {d} late", BOWL, bowl, ("x", "y"), rule=Rule(0.015625, delay=d), steps=40)
        for d in (1, 4)
    ]
    for name, rate in (("below", 0.59375), ("above", 0.65625)):
        rule = Rule(rate, delay=2)
        asked.append(Question(f"2 late, {name} the limit", PARABOLA, one, ("x",), (), rule, 60))
    random = np.random.default_rng(81)
    given = {
        "x": random.normal(size=(16, 5)),
        "labels": random.integers(0, 3, 16),
        "w": random.normal(size=(5, 4)),
        "b": np.zeros(4),
        "v": random.normal(size=(4, 3)),
        "c": np.zeros(3),
    }
    rule = Rule(0.25, 0.5, delay=3)
    return [*asked, Question("network, 3 late", NETWORK, given, LEARNED, (), rule, 20)]
