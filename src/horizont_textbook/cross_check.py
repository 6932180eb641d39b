"""Compares the chapters' expressions and their gradients in NumPy with every framework."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import autograd.numpy as np
import pandas as pd
from autograd import grad

from horizont.config.system import FRAMEWORKS, installed_version
from horizont.reporting.labels import framework_label
from horizont.reporting.output import Message, Stack, Verdict
from horizont.reporting.tables import text_table
from horizont.workflow.paths import Paths
from horizont_textbook import Array
from horizont_textbook.cases import CASES
from horizont_textbook.convolution import average_pool, convolution, max_pool
from horizont_textbook.descent import Momentum, descend
from horizont_textbook.framework_operators import BACKENDS, CASES_FILE, Case, evaluate
from horizont_textbook.metrics import cross_entropy, softmax
from horizont_textbook.neuron import ACTIVATIONS
from horizont_textbook.normalisation import batch_norm
from horizont_textbook.page import format_distance
from horizont_textbook.processes import load_arrays, relative_distance, result_file, run_modules
from horizont_textbook.recurrence import LAYERS

#: Largest relative distance of two computations in float64: some thousand roundings.
BOUND = 1e-12

#: The operators of the expressions, as the chapters define them.
OPERATORS = {
    **{name: getattr(np, name) for name in ("sum", "mean", "exp", "sin")},
    **ACTIVATIONS,
    **LAYERS,
    "softmax": softmax,
    "cross_entropy": cross_entropy,
    "convolution": convolution,
    "max_pool": max_pool,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
}


def reference(case: Case) -> dict[str, Array]:
    """Compute values and gradients of a case, or the paths of its optimizer, in NumPy."""

    def result(variables: Mapping[str, Any]) -> Any:
        moved = {name: variables[name] for name in case.by}
        values = evaluate(case.expression, OPERATORS, {**case.inputs, **moved})
        return np.sum(list(values.values())[-1])

    start = {name: case.inputs[name] for name in case.by}
    if case.optimizer is not None:
        path = descend(grad(result), start, Momentum(**case.optimizer), case.steps)
        return {f"path of {name}": points for name, points in path.items()}
    values = evaluate(case.expression, OPERATORS, case.inputs)
    last = list(values)[-1]
    gradients = {f"d{last}/d{name}": value for name, value in grad(result)(start).items()}
    return {name: np.asarray(value) for name, value in (values | gradients).items()}


@dataclass(frozen=True)
class CrossCheck:
    """The results of all frameworks for the cases of a chapter.

    Attributes
    ----------
    results
        By framework, arrays by `<case>/<name>`.
    missing
        By framework, the reason why there are no results.
    """

    cases: tuple[Case, ...]
    results: Mapping[str, Mapping[str, Array]]
    missing: Mapping[str, str]

    def arrays(self, case: str, name: str) -> dict[str, Array]:
        """Return an array of a case by framework."""
        return {framework: each[f"{case}/{name}"] for framework, each in self.results.items()}

    def compare(self) -> pd.DataFrame:
        """Return the number of compared values, and the largest distance of each framework."""
        rows = []
        for case in (case for case in self.cases if not case.random):
            expected = reference(case)
            row: dict[str, Any] = {"expression": case.name}
            row["values"] = sum(value.size for value in expected.values())
            for framework, arrays in self.results.items():
                row[framework] = max(
                    relative_distance(arrays[f"{case.name}/{name}"].reshape(value.shape), value)
                    for name, value in expected.items()
                )
            rows.append(row)
        return pd.DataFrame(rows)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        distances = self.compare()
        ok = bool((distances[list(self.results)] <= BOUND).all(axis=None))
        cells = distances[["expression"]].assign(values=distances["values"].map("{:,}".format))
        for name in FRAMEWORKS:
            known = distances[name].map(format_distance) if name in self.results else "–"
            cells[framework_label(name)] = known
        table = text_table(cells, numbers=list(cells.columns[1:]), measured=False)
        reasons = [
            Message(f"{framework_label(name)}: {reason}.") for name, reason in self.missing.items()
        ]
        scope = "all" if ok else "not all"
        verdict = Verdict(
            f"{scope} values agree with NumPy within a relative distance of {BOUND:.0e}.", ok
        )
        facts = {"ok": ok, "distances": distances.to_dict("records"), "missing": {**self.missing}}
        bundle = Stack((table, *reasons, verdict))._repr_mimebundle_()
        return bundle, {"horizont": {"cross_check": facts}}


def run(chapter: str, paths: Paths | None = None) -> CrossCheck:
    """Run the cases of a chapter in every framework, or load their results.

    Starting a framework takes longer than all cases, so the first chapter runs those of all.

    Raises
    ------
    KeyError
        If there is no such chapter.
    RunFailed
        If a process fails or the timeout expires.
    """
    cases = tuple(CASES[chapter]())
    missing = {name: reason for name in FRAMEWORKS if (reason := _missing_reason(name))}
    names = [name for name in FRAMEWORKS if name not in missing]
    files = {name: result_file(f"cross-check-{name}", name, paths) for name in names}
    if absent := {name: file for name, file in files.items() if not file.exists()}:
        run_cases([case for each in CASES.values() for case in each()], absent)
    return CrossCheck(cases, {name: load_arrays(file) for name, file in files.items()}, missing)


def run_cases(cases: list[Case], files: Mapping[str, Path]) -> None:
    """Run cases in some frameworks, one process each, and save the results of each."""
    modules = {name: ("horizont_textbook.framework_operators", name, "FOLDER") for name in files}
    run_modules(modules, files, "cross-check", {CASES_FILE: pickle.dumps(cases)})


def _missing_reason(framework: str) -> str | None:
    if framework not in BACKENDS:
        return "no operators are defined for it"
    return None if installed_version(framework) else "not installed"
