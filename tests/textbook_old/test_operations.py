"""Every operation of a formula: its gradients by finite differences, and what it must refuse."""

from __future__ import annotations

import numpy as np
import pytest

from horizont.theory.chapters import CHAPTERS, questions_of
from horizont.theory.differentiate import finite_differences, gradients
from horizont.theory.formula import read_formula
from horizont.theory.operations import OPERATIONS
from horizont.theory.questions import Question
from tests.textbook_old.conformance import CONFORMANCE

ASKED = [question for chapter in CHAPTERS for question in questions_of(chapter)]


def differentiable(questions: list[Question]) -> list[Question]:
    return [question for question in questions if not question.rule and not question.random]


@pytest.mark.parametrize("question", differentiable([*CONFORMANCE, *ASKED]), ids=lambda q: q.name)
def test_gradients_are_those_of_finite_differences(question: Question) -> None:
    formula = read_formula(question.formula)
    kinks = question.name.startswith(("relu(x)", "leaky_relu(x)", "elu(x)"))
    for name, found in gradients(formula, question.given, question.by).items():
        expected = finite_differences(formula, question.given, name)
        smooth = (question.given[name] != 0) | (not kinks)
        scale = max(1.0, float(np.abs(expected).max()))
        wrong = np.where(smooth, found - expected, 0)
        assert np.abs(wrong).max() < 1e-6 * scale


def test_all_operations_are_asked_for() -> None:
    used = {node.operation for q in CONFORMANCE for node in read_formula(q.formula).nodes}
    assert set(OPERATIONS) <= used


def test_questions_have_names_of_their_own() -> None:
    names = [question.name for question in [*CONFORMANCE, *ASKED]]
    assert len(set(names)) == len(names)


def test_a_value_that_is_used_twice_gets_both_parts() -> None:
    formula = read_formula("c = a + b\nd = b + 1\ne = c * d")
    given = {"a": np.array(2.0), "b": np.array(1.0)}
    assert gradients(formula, given, ["a", "b"]) == {"a": 2.0, "b": 5.0}
    assert formula.inputs == ("a", "b")
    assert formula.result == "e"


@pytest.mark.parametrize("text", ["x", "y = x if x else 1", "y = x.T", "y, z = x", "y = 'x'"])
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"formula|assignment"):
        read_formula(text)
