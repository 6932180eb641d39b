"""Expressions that NumPy and every framework evaluate, and a framework behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """An expression that NumPy and every framework evaluate.

    Attributes
    ----------
    expression
        Lines of assignments; the last one is the result.
    inputs
        float64, or integers for labels.
    by
        The inputs by which the sum of the result is differentiated; none means all but labels.
    optimizer, steps
        If there are settings of `Momentum`: these inputs are updated that many times.
    random
        Whether each framework draws random numbers of its own, so that results differ.
    """

    name: str
    expression: str
    inputs: Mapping[str, Any]
    by: tuple[str, ...] = ()
    optimizer: Mapping[str, Any] | None = None
    steps: int = 0
    random: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """The inputs by which the sum of the result is differentiated."""
        return self.by or tuple(n for n, v in self.inputs.items() if v.dtype == np.float64)


@dataclass(frozen=True)
class Backend:
    """A framework behind one interface.

    `differentiate` calls a function that evaluates a case, and returns its values and the
    gradients of the sum of the last one; `optimizer` returns a function that updates variables.
    """

    operators: Mapping[str, Callable[..., Any]]
    variable: Callable[[Any], Any]
    to_numpy: Callable[[Any], Any]
    differentiate: Callable[[Callable[[], dict[str, Any]], list[Any]], tuple[dict[str, Any], Any]]
    optimizer: Callable[[Mapping[str, Any], list[Any]], Callable[[Any], None]]
    read: Callable[[Any], Any] = lambda variable: variable


def evaluate(
    expression: str, operators: Mapping[str, Any], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all assignments, the result last."""
    values = dict(inputs)
    exec(expression, {"__builtins__": {}, **operators}, values)
    return {name: value for name, value in values.items() if name not in inputs}
