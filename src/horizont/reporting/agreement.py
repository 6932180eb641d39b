"""Whether the frameworks answer a question as NumPy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.equivalence.compare import relative_distance
from horizont.reporting import labels
from horizont.reporting.tables import text_table
from horizont.theory.questions import Question, answered

#: How far two computations in float64 may be apart: some thousand roundings.
BOUND = 1e-12


@dataclass(frozen=True)
class Agreement:
    """How far each framework is from NumPy, question by question.

    Attributes
    ----------
    distances
        Largest relative distance by question and framework; None if it is not installed.
    numbers
        How many numbers of each question were compared.
    """

    distances: Mapping[str, Mapping[str, float | None]]
    numbers: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether all that was answered is within the bound."""
        known = [d for row in self.distances.values() for d in row.values() if d is not None]
        return all(distance <= BOUND for distance in known)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        rows = [
            {
                "question": question,
                "numbers": f"{self.numbers[question]:,}",
                **{labels.framework_label(name): _written(value) for name, value in row.items()},
            }
            for question, row in self.distances.items()
        ]
        shown = text_table(pd.DataFrame(rows), numbers=[n for n in rows[0] if n != "question"])
        told = {"ok": self.ok, "bound": BOUND, "distances": self.distances}
        verdict = _verdict(self.ok)
        page = shown.html() + verdict
        plain = f"{shown.cells.to_string(index=False)}"
        return {"text/html": page, "text/plain": plain}, {"horizont": {"agreement": told}}


def agreement(
    questions: Sequence[Question],
    told: Mapping[str, Mapping[str, NDArray[Any]]],
    frameworks: Sequence[str] = ("tensorflow", "pytorch", "mxnet"),
) -> Agreement:
    """Compare all answers of the frameworks with NumPy's.

    Parameters
    ----------
    told
        Arrays by framework and ``<question>/<what>``.
    """
    distances: dict[str, dict[str, float | None]] = {}
    numbers = {}
    for question in questions:
        if question.random:
            continue
        expected = answered(question)
        numbers[question.name] = sum(value.size for value in expected.values())
        distances[question.name] = {
            name: _farthest(expected, told[name], question.name) if name in told else None
            for name in frameworks
        }
    return Agreement(distances, numbers)


def _farthest(
    expected: Mapping[str, NDArray[Any]], told: Mapping[str, NDArray[Any]], question: str
) -> float:
    return max(
        relative_distance(np.reshape(told[f"{question}/{what}"], value.shape), value, value)
        for what, value in expected.items()
    )


def _written(distance: float | None) -> str:
    if distance is None:
        return "–"
    return f"{distance:.0e}" if distance else "0"


def _verdict(ok: bool) -> str:
    kind, mark = ("good", "✓") if ok else ("bad", "✗")
    text = "agree" if ok else "do not agree"
    return (
        f'<p class="hz-verdict hz-{kind}">{mark} NumPy and the frameworks {text}: '
        f"{'nothing' if ok else 'something'} is further apart than {BOUND:.0e} of its size.</p>"
    )
