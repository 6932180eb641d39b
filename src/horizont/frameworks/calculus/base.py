"""What a framework must offer to answer a question."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from horizont.theory.formula import Formula
from horizont.theory.questions import Question

#: A framework's operations by the names that formulas use.
Operations = Mapping[str, Callable[..., Any]]


class Calculator(Protocol):
    """A framework as a calculator."""

    def gradients(
        self, formula: Formula, question: Question
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Compute all nodes, and the gradients of the result by `question.by`."""
        ...

    def descent(self, formula: Formula, question: Question) -> dict[str, NDArray[Any]]:
        """Move the inputs in `question.by` by an optimizer of the framework's own."""
        ...


class Late:
    """Hands gradients on after some steps, for an optimizer that knows of no delay.

    Until there is one that old, the first is handed on.
    """

    def __init__(self, delay: int) -> None:
        self._under_way: deque[Any] = deque(maxlen=delay + 1)

    def __call__(self, gradients: Any) -> Any:
        """Take the newest gradients and hand on those that are due."""
        self._under_way.append(gradients)
        return self._under_way[0]


def evaluate(formula: Formula, operations: Operations, given: Mapping[str, Any]) -> dict[str, Any]:
    """Compute all nodes of a formula with a framework's operations."""
    values = dict(given)
    for node in formula.nodes:
        operands = [values[s] if isinstance(s, str) else s for s in node.sources]
        values[node.name] = operations[node.operation](*operands, **dict(node.settings))
    return values
