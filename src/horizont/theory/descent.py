"""Gradient descent on a formula, with and without momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.differentiate import gradients
from horizont.theory.formula import Formula

Array = NDArray[Any]


@dataclass(frozen=True)
class Rule:
    """How a step follows from a gradient.

    Attributes
    ----------
    nesterov
        Whether the step looks ahead along the velocity.
    delay
        How many steps old the weights are whose gradient is used: those that there were so many
        steps before, or the first ones.
    """

    learning_rate: float
    momentum: float = 0.0
    nesterov: bool = False
    delay: int = 0


def descend(
    formula: Formula, start: Mapping[str, Array], moved: Sequence[str], rule: Rule, steps: int
) -> dict[str, Array]:
    """Go down a formula's result by its gradients.

    Parameters
    ----------
    start
        All inputs of the formula.
    moved
        Those that are changed; the others stay.

    Returns
    -------
    dict
        For each of them all its values, (steps + 1, ...).
    """
    values = {
        name: np.asarray(value, dtype=np.float64 if name in moved else None)
        for name, value in start.items()
    }
    velocity = {name: np.zeros_like(values[name]) for name in moved}
    path = {name: [values[name]] for name in moved}
    for number in range(steps):
        seen = {name: path[name][max(0, number - rule.delay)] for name in moved}
        slopes = gradients(formula, {**values, **seen}, moved)
        for name in moved:
            velocity[name] = rule.momentum * velocity[name] - rule.learning_rate * slopes[name]
            step = velocity[name]
            if rule.nesterov:
                step = rule.momentum * velocity[name] - rule.learning_rate * slopes[name]
            values[name] = values[name] + step
            path[name].append(values[name])
    return {name: np.stack(along) for name, along in path.items()}
