"""Computing a formula forwards, and its gradients backwards, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.formula import Formula, Node
from horizont.theory.operations import OPERATIONS

Array = NDArray[Any]


def forward(formula: Formula, given: Mapping[str, Array]) -> dict[str, Array]:
    """Compute every node of a formula from its inputs on.

    Returns
    -------
    dict
        Inputs and nodes by name.
    """
    values = {name: np.asarray(value) for name, value in given.items()}
    for node in formula.nodes:
        operation = OPERATIONS[node.operation]
        values[node.name] = operation.forward(*_operands(node, values), **dict(node.settings))
    return values


def backward(formula: Formula, values: Mapping[str, Array], of: str = "") -> dict[str, Array]:
    """Differentiate the sum of a node by everything before it, from the result back.

    Each node hands the gradient of its output on to its operands, multiplied by how its output
    changes with them (the chain rule); where a value is used twice, the two parts add up.

    Parameters
    ----------
    values
        As :func:`forward` tells them.
    of
        The node; the formula's result by default.

    Returns
    -------
    dict
        Gradients by name, of the same shapes as the values.
    """
    of = of or formula.result
    gradients: dict[str, Array] = {of: np.ones_like(values[of])}
    for node in reversed(formula.nodes):
        if node.name not in gradients:
            continue
        rule = OPERATIONS[node.operation].backward
        parts = rule(
            gradients[node.name],
            values[node.name],
            *_operands(node, values),
            **dict(node.settings),
        )
        for source, part in zip(node.sources, parts, strict=True):
            if isinstance(source, str) and part is not None:
                share = fitted(part, values[source].shape)
                gradients[source] = gradients.get(source, 0.0) + share
    return gradients


def gradients(
    formula: Formula, given: Mapping[str, Array], by: Sequence[str], of: str = ""
) -> dict[str, Array]:
    """Differentiate a formula's result, summed, by some of its inputs."""
    found = backward(formula, forward(formula, given), of)
    return {name: found[name] for name in by}


def finite_differences(
    formula: Formula, given: Mapping[str, Array], by: str, of: str = "", step: float = 1e-6
) -> Array:
    """Differentiate by moving each number a little both ways: slow, and nearly right.

    The error is of the order of the squared step, plus rounding divided by the step.
    """
    base = np.asarray(given[by], dtype=np.float64)
    found = np.empty_like(base)
    for place in np.ndindex(base.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = base.copy()
            moved[place] += sign * step
            ends.append(np.sum(forward(formula, {**given, by: moved})[of or formula.result]))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    return found


def fitted(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Add up a gradient over the axes along which a smaller operand was repeated."""
    gradient = np.asarray(gradient)
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size != gradient.shape[axis])
    return np.asarray(gradient.sum(axis=repeated, keepdims=True))


def _operands(node: Node, values: Mapping[str, Array]) -> list[Any]:
    return [values[source] if isinstance(source, str) else source for source in node.sources]
