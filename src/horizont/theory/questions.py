"""Questions that NumPy and every framework can answer: the same formula, the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.descent import Rule, descend
from horizont.theory.differentiate import forward, gradients
from horizont.theory.formula import read_formula

Array = NDArray[Any]


@dataclass(frozen=True)
class Question:
    """What is asked about a formula.

    Attributes
    ----------
    name
        Unique among all questions.
    formula
        As :func:`horizont.theory.read_formula` reads it.
    given
        Its inputs: float64, or whole numbers for labels.
    by
        The inputs by which its result, summed, is to be differentiated.
    told
        The nodes whose values are wanted; none stands for the result.
    rule, steps
        If there is a rule: the inputs in `by` are moved so many steps down the gradient, and
        their ways are the answer.
    random
        Whether each framework may draw numbers of its own, so that answers differ.
    """

    name: str
    formula: str
    given: Mapping[str, Array]
    by: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    rule: Rule | None = None
    steps: int = 0
    random: bool = field(default=False)

    def described(self) -> dict[str, Any]:
        """Write all but the arrays as plain values."""
        plain = {key: value for key, value in asdict(self).items() if key != "given"}
        return plain | {"given": list(self.given)}

    @classmethod
    def restored(cls, plain: Mapping[str, Any], given: Mapping[str, Array]) -> Question:
        """Read what :meth:`described` wrote."""
        rule = Rule(**plain["rule"]) if plain["rule"] else None
        lists = {key: tuple(plain[key]) for key in ("by", "told")}
        return cls(**{**plain, **lists, "rule": rule, "given": given})


def value_key(node: str) -> str:
    """Name the value of a node in an answer."""
    return node


def gradient_key(result: str, by: str) -> str:
    """Name a gradient in an answer."""
    return f"d {result} by d {by}"


def path_key(by: str) -> str:
    """Name the way of an input in an answer."""
    return f"way of {by}"


def answered(question: Question) -> dict[str, Array]:
    """Answer a question in NumPy, by the rules of :mod:`horizont.theory`."""
    formula = read_formula(question.formula)
    if question.rule:
        way = descend(formula, question.given, question.by, question.rule, question.steps)
        return {path_key(name): values for name, values in way.items()}
    values = forward(formula, question.given)
    told = {value_key(name): values[name] for name in question.told or (formula.result,)}
    found = gradients(formula, question.given, question.by)
    slopes = {gradient_key(formula.result, name): value for name, value in found.items()}
    return {name: np.asarray(value) for name, value in (told | slopes).items()}
