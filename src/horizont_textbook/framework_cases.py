"""Evaluates and differentiates the expressions of the cross-check in the process of a framework."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from horizont.frameworks import load_adapter
from horizont_textbook.expressions import Backend, Case, evaluate
from horizont_textbook.framework_call import Results
from horizont_textbook.framework_operators import BACKENDS


def run_case(backend: Backend, case: Case) -> dict[str, Any]:
    """Return values and gradients of a case, or the paths of its optimizer."""
    inputs = {name: backend.variable(np.asarray(v)) for name, v in case.inputs.items()}
    variables = [inputs[name] for name in case.variables]

    def run() -> dict[str, Any]:
        tensors = {name: backend.read(value) for name, value in inputs.items()}
        return evaluate(case.expression, backend.operators, tensors)

    if case.optimizer is None:
        values, gradients = backend.differentiate(run, variables)
        named = zip(case.variables, gradients, strict=True)
        values |= {f"d{list(values)[-1]}/d{name}": gradient for name, gradient in named}
        return {name: backend.to_numpy(value) for name, value in values.items()}
    # No optimizer has a delay: gradients wait in a queue, at first the oldest one is repeated.
    queue: deque[Any] = deque(maxlen=case.optimizer["delay"] + 1)
    update = backend.optimizer(case.optimizer, variables)
    path = [[backend.to_numpy(variable) for variable in variables]]
    for _ in range(case.steps):
        queue.append(backend.differentiate(run, variables)[1])
        update(queue[0])
        path.append([backend.to_numpy(variable) for variable in variables])
    points = zip(case.variables, zip(*path, strict=True), strict=True)
    return {f"path of {name}": np.stack(values) for name, values in points}


def run_cases(framework: str, cases: Sequence[Mapping[str, Any]]) -> Results:
    """Return the arrays of all cases; of a `Case`, JSON has the fields, and lists for arrays."""
    load_adapter(framework).configure(1)
    backend = BACKENDS[framework]()
    results: Results = {}
    for fields in cases:
        inputs = {name: np.asarray(value) for name, value in fields["inputs"].items()}
        case = Case(**{**fields, "inputs": inputs, "by": tuple(fields["by"])})
        results[case.name] = run_case(backend, case)
    return results
