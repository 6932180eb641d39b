"""Calls functions in the interpreters of the frameworks, and stores what they compute."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np

from horizont.config.interpreters import import_variables
from horizont.config.system import framework_interpreter, framework_python, installed_version
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_in_parallel
from horizont.records.files import write_atomically
from horizont.records.provenance import code_fingerprint
from horizont.workflow.paths import study_paths
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import hash_fields
from horizont_textbook import Array
from horizont_textbook.framework_call import CALL_FILE, RESULTS_FILE, Results

TIMEOUT_S = 300.0
LOOPBACK = "127.0.0.1"


def call_in_frameworks(
    name: str, function: str, arguments: Mapping[str, dict[str, Any]]
) -> dict[str, Results]:
    """Call a function in a process of each of some frameworks, or load what it returned.

    Parameters
    ----------
    name
        Of the stored results, which are valid for the packages of a framework and this code.
    function
        ``module:name``. What it imports must be installed in the environment of a framework.
    arguments
        Keyword arguments by framework, of types that JSON has; arrays are passed as lists.

    Raises
    ------
    RunFailed
        If a process fails or the timeout expires. None is left running.
    """
    store, code = study_paths().textbook, code_fingerprint([Path(__file__).parent])
    files = {}
    for framework in arguments:
        fields = {"interpreter": repr(framework_interpreter(framework)), "code": code}
        files[framework] = store / f"{name}-{framework}-{hash_fields(fields)}.npz"
    if absent := [framework for framework in arguments if not files[framework].exists()]:
        progress = Progress("process", len(absent))
        progress.start(name)
        with tempfile.TemporaryDirectory(prefix="horizont-") as root:
            plans = [_plan_call(each, Path(root, each)) for each in absent]
            for plan in plans:
                call = {"function": function, "arguments": arguments[plan.name]}
                plan.folder.mkdir()
                text = json.dumps(call, default=lambda array: array.tolist())
                (plan.folder / CALL_FILE).write_text(text, encoding="utf-8")
            run_in_parallel(plans, TIMEOUT_S, lambda plan: progress.finish(f"{plan.name} done"))
            store.mkdir(parents=True, exist_ok=True)
            for plan in plans:
                write_atomically(files[plan.name], partial(copy, plan.folder / RESULTS_FILE))
        progress.close()
    return {framework: dict(np.load(file)) for framework, file in files.items()}


def _plan_call(framework: str, folder: Path) -> ProcessPlan:
    python = framework_python(framework)
    argv = (python, "-m", "horizont_textbook.framework_call")
    environment = {**thread_environment(1), "TMPDIR": str(folder), **import_variables(python)}
    return ProcessPlan(framework, LOOPBACK, argv, environment, folder, job=None)


def run_group(chapter: str, size: int) -> Results:
    """Run the exercises of a chapter in a gloo group, or load their results.

    Parameters
    ----------
    chapter
        The module of this package whose `run_exercises` each process calls.

    Returns
    -------
    dict
        The rows of an array are those of the processes that computed it, by rank. Without PyTorch
        there are no results.
    """
    if installed_version("pytorch") is None:
        return {}
    arguments = {"module": f"horizont_textbook.{chapter}", "size": size}
    function = "horizont_textbook.group:run_group"
    return call_in_frameworks(f"group-{chapter}", function, {"pytorch": arguments})["pytorch"]


def by_rank(results: Results, exercise: str, name: str) -> list[Array]:
    """List a result of all processes that have it."""
    return list(results.get(f"{exercise}|{name}", ()))
