"""Expressions that NumPy and every framework evaluate, differentiate and minimize."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = dict[str, Any]

#: From the variables to the sum of the result, and all values.
Run = Callable[[list[Any]], tuple[Any, Values]]


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

    @property
    def result(self) -> str:
        """The name of the result."""
        return self.expression.splitlines()[-1].partition(" = ")[0]

    def evaluate(self, operators: Mapping[str, Any], inputs: Mapping[str, Any]) -> Values:
        """Return the values of all assignments."""
        values = dict(inputs)
        exec(self.expression, {"__builtins__": {}, **operators}, values)
        return {name: value for name, value in values.items() if name not in inputs}


@dataclass(frozen=True)
class Backend:
    """A framework behind one interface.

    `differentiate` calls a function at some variables, and returns the gradients of the sum and
    all values; `optimizer`, given variables and the settings of `Momentum` but its delay, returns a
    function from gradients to updated variables.
    """

    operators: Mapping[str, Callable[..., Any]]
    array: Callable[[Any], Any]
    to_numpy: Callable[[Any], Any]
    differentiate: Callable[[Run, list[Any]], tuple[list[Any], Values]]
    optimizer: Callable[..., Callable[[list[Any]], list[Any]]]


def run_case(backend: Backend, case: Case) -> Values:
    """Return values and gradients of a case, or the paths of its optimizer."""
    inputs = {name: backend.array(value) for name, value in case.inputs.items()}
    variables = [inputs[name] for name in case.variables]

    def run(arrays: list[Any]) -> tuple[Any, Values]:
        moved = dict(zip(case.variables, arrays, strict=True))
        values = case.evaluate(backend.operators, inputs | moved)
        return backend.operators["sum"](values[case.result]), values

    if case.optimizer is None:
        gradients, values = backend.differentiate(run, variables)
        names = [f"d{case.result}/d{name}" for name in case.variables]
        values = values | dict(zip(names, gradients, strict=True))
        return {name: backend.to_numpy(value) for name, value in values.items()}
    settings = dict(case.optimizer)
    # No optimizer has a delay: gradients wait in a queue, at first the oldest one is repeated.
    queue: deque[Any] = deque(maxlen=settings.pop("delay") + 1)
    update = backend.optimizer(variables, **settings)
    path = [[backend.to_numpy(variable) for variable in variables]]
    for _ in range(case.steps):
        queue.append(backend.differentiate(run, variables)[0])
        variables = update(queue[0])
        path.append([backend.to_numpy(variable) for variable in variables])
    points = zip(case.variables, zip(*path, strict=True), strict=True)
    return {f"path of {name}": np.stack(values) for name, values in points}
