"""A process that answers questions: one framework, a folder of questions, a file of answers."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.config.system import FRAMEWORKS
from horizont.frameworks import load_adapter
from horizont.frameworks.calculus.base import Calculator
from horizont.theory.formula import read_formula
from horizont.theory.questions import Question, gradient_key, path_key, value_key

QUESTIONS = "questions.json"
GIVEN = "given.npz"
ANSWERS = "answers.npz"


def answer_all(framework: str, folder: Path) -> None:
    """Answer the questions in a folder; the arrays are named ``<question>/<what>``."""
    load_adapter(framework).configure(1)
    package = FRAMEWORKS[framework].rpartition(".")[2]
    own = import_module(f"horizont.frameworks.calculus.{package}")
    calculator = cast(Calculator, own.CALCULATOR)
    told = {}
    for question in read_questions(folder):
        for name, value in answer(calculator, question).items():
            told[f"{question.name}/{name}"] = np.asarray(value)
    np.savez(folder / ANSWERS, **told)


def read_questions(folder: Path) -> list[Question]:
    """Read questions with their arrays."""
    listed = json.loads((folder / QUESTIONS).read_text(encoding="utf-8"))
    with np.load(folder / GIVEN) as arrays:
        return [
            Question.restored(plain, {key: arrays[f"{plain['name']}/{key}"] for key in given})
            for plain in listed
            for given in [plain["given"]]
        ]


def answer(calculator: Calculator, question: Question) -> dict[str, NDArray[Any]]:
    """Answer one question."""
    formula = read_formula(question.formula)
    if question.rule:
        ways = calculator.descent(formula, question)
        return {path_key(name): value for name, value in ways.items()}
    values, slopes = calculator.gradients(formula, question)
    told = {value_key(name): values[name] for name in question.told or (formula.result,)}
    return told | {gradient_key(formula.result, name): value for name, value in slopes.items()}
