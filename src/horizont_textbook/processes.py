"""Starts the processes of the chapters, and stores what they compute until the code changes."""

from __future__ import annotations

import pickle
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np

from horizont.config.system import installed_version
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_in_parallel
from horizont.records.files import write_atomically
from horizont.records.provenance import code_fingerprint
from horizont.workflow.paths import study_paths
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import hash_fields
from horizont_textbook import INPUTS_FILE, RESULTS_FILE

TIMEOUT_S = 300.0
LOOPBACK = "127.0.0.1"

#: What each process of a group computed, by exercise and name; empty if there is no PyTorch.
GroupResults = Sequence[Mapping[tuple[str, str], Any]]


def run_modules(
    name: str, commands: Mapping[str, Sequence[str]], inputs: object = None
) -> dict[str, Any]:
    """Run a Python module for each of some frameworks, or load what it wrote.

    Parameters
    ----------
    name
        Of the stored results, which are valid for a framework's version and this code.
    commands
        Module and arguments by framework. In its working folder it finds the pickled inputs,
        `INPUTS_FILE`, and pickles its results to `RESULTS_FILE`.

    Raises
    ------
    RunFailed
        If a process fails or the timeout expires. None is left running.
    """
    files = {framework: _result_file(name, framework) for framework in commands}
    if absent := [framework for framework in commands if not files[framework].exists()]:
        progress = Progress("process", len(absent))
        progress.start(name)
        with tempfile.TemporaryDirectory(prefix="horizont-") as root:
            plans = []
            for framework in absent:
                folder = Path(root, framework)
                folder.mkdir()
                (folder / INPUTS_FILE).write_bytes(pickle.dumps(inputs))
                argv = (sys.executable, "-m", *commands[framework])
                environment = {**thread_environment(1), "TMPDIR": str(folder)}
                plans.append(ProcessPlan(framework, LOOPBACK, argv, environment, folder, job=None))
            run_in_parallel(plans, TIMEOUT_S, lambda plan: progress.finish(f"{plan.name} done"))
            for plan in plans:
                files[plan.name].parent.mkdir(parents=True, exist_ok=True)
                write_atomically(files[plan.name], partial(copy, plan.folder / RESULTS_FILE))
        progress.close()
    return {framework: pickle.loads(file.read_bytes()) for framework, file in files.items()}


def _result_file(name: str, framework: str) -> Path:
    fields = {
        "version": str(installed_version(framework)),
        "numpy": np.__version__,
        "code": code_fingerprint([Path(__file__).parent]),
    }
    return study_paths().textbook / f"{name}-{framework}-{hash_fields(fields)}.pickle"


def run_group(chapter: str, size: int) -> GroupResults:
    """Run the exercises of a chapter in a gloo group, or load their results.

    Without PyTorch there are no results.
    """
    if installed_version("pytorch") is None:
        return []
    command = ("horizont_textbook.group", f"horizont_textbook.{chapter}", str(size))
    return run_modules(f"group-{chapter}", {"pytorch": command})["pytorch"]


def by_rank(results: GroupResults, exercise: str, name: str) -> list[Any]:
    """List a result of all processes that have it."""
    return [own[exercise, name] for own in results if (exercise, name) in own]
