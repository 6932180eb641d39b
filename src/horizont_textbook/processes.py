"""Calls functions in the interpreters of the frameworks, and stores what they compute."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

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
from horizont_textbook.framework_call import RESULTS_FILE, Results, read_results, write_call

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
    files = {framework: _result_file(name, framework) for framework in arguments}
    if absent := [framework for framework in arguments if not files[framework].exists()]:
        progress = Progress("process", len(absent))
        progress.start(name)
        with tempfile.TemporaryDirectory(prefix="horizont-") as root:
            plans = []
            for framework in absent:
                folder = Path(root, framework)
                folder.mkdir()
                write_call(folder, function, arguments[framework])
                plans.append(_plan_call(framework, folder))
            run_in_parallel(plans, TIMEOUT_S, lambda plan: progress.finish(f"{plan.name} done"))
            for plan in plans:
                files[plan.name].parent.mkdir(parents=True, exist_ok=True)
                write_atomically(files[plan.name], partial(copy, plan.folder / RESULTS_FILE))
        progress.close()
    return {framework: read_results(file) for framework, file in files.items()}


def _plan_call(framework: str, folder: Path) -> ProcessPlan:
    python = framework_python(framework)
    argv = (python, "-m", "horizont_textbook.framework_call")
    environment = {**thread_environment(1), "TMPDIR": str(folder), **import_variables(python)}
    return ProcessPlan(framework, LOOPBACK, argv, environment, folder, job=None)


def _result_file(name: str, framework: str) -> Path:
    fields = {
        "interpreter": repr(framework_interpreter(framework)),
        "code": code_fingerprint([Path(__file__).parent]),
    }
    return study_paths().textbook / f"{name}-{framework}-{hash_fields(fields)}.npz"


def run_group(chapter: str, size: int) -> Results:
    """Run the exercises of a chapter in a gloo group, or load their results.

    Parameters
    ----------
    chapter
        The module of this package whose `run_exercises` each process calls.

    Returns
    -------
    dict
        By exercise and name; the rows of an array are those of the processes that computed it, by
        rank. Without PyTorch there are no results.
    """
    if installed_version("pytorch") is None:
        return {}
    arguments = {"module": f"horizont_textbook.{chapter}", "size": size}
    call = call_in_frameworks(
        f"group-{chapter}", "horizont_textbook.group:run_group", {"pytorch": arguments}
    )
    return call["pytorch"]


def by_rank(results: Results, exercise: str, name: str) -> list[Array]:
    """List a result of all processes that have it."""
    return list(results.get(exercise, {}).get(name, ()))
