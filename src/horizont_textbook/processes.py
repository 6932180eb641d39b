"""Starts the processes of the chapters, and stores their arrays as long as the code is the same."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from horizont.config.system import installed_version
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_in_parallel
from horizont.records.provenance import code_fingerprint
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import hash_fields
from horizont_textbook import Array

TIMEOUT_S = 300.0
LOOPBACK = "127.0.0.1"

Arrays = Mapping[str, Array]


def run_modules(
    plans: Mapping[str, Sequence[str]],
    files: Mapping[str, Path],
    what: str,
    inputs: Mapping[str, bytes] | None = None,
) -> None:
    """Run Python modules in processes of their own and merge the arrays that each writes.

    Parameters
    ----------
    plans
        By name: a module and its arguments, in which `FOLDER` stands for the working folder.
    files
        Where the arrays of each are stored; a file appears complete or not at all.
    what
        For the progress line.
    inputs
        Files for the working folder of each process.

    Raises
    ------
    RunFailed
        If a process fails or the timeout expires. None is left running.
    """
    progress = Progress("process", len(plans))
    progress.start(what)
    with tempfile.TemporaryDirectory(prefix="horizont-") as root:
        processes = []
        for name, (module, *arguments) in plans.items():
            folder = Path(root, name)
            folder.mkdir()
            for file_name, content in (inputs or {}).items():
                (folder / file_name).write_bytes(content)
            words = [str(folder) if word == "FOLDER" else word for word in arguments]
            argv = (sys.executable, "-m", module, *words)
            environment = {**thread_environment(1), "TMPDIR": str(folder)}
            processes.append(ProcessPlan(name, LOOPBACK, argv, environment, folder, job=None))
        run_in_parallel(processes, TIMEOUT_S, lambda plan: progress.finish(f"{plan.name} done"))
        for name, file in files.items():
            parts = map(load_arrays, sorted(Path(root, name).glob("*.npz")))
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(f".{os.getpid()}.npz")
            np.savez(partial, **{key: array for part in parts for key, array in part.items()})
            partial.replace(file)
    progress.close()


def result_file(name: str, framework: str, paths: Paths | None = None) -> Path:
    """Return the file of results that are valid for a framework's version and this code."""
    fields = {
        "version": str(installed_version(framework)),
        "numpy": np.__version__,
        "code": code_fingerprint([Path(__file__).parent]),
    }
    return (paths or study_paths()).textbook / f"{name}-{hash_fields(fields)}.npz"


def load_arrays(file: Path) -> dict[str, Array]:
    """Read all arrays of a file."""
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


@dataclass(frozen=True)
class GroupResults:
    """Arrays of the processes of a group, by `<exercise>/<rank>/<name>`; empty if not run."""

    arrays: Arrays

    def by_rank(self, exercise: str, name: str) -> list[Array]:
        """List an array of all processes that have it."""
        keys = (f"{exercise}/{rank}/{name}" for rank in range(len(self.arrays)))
        return [self.arrays[key] for key in keys if key in self.arrays]

    def sent_bytes(self, exercise: str) -> list[int]:
        """List the bytes that each process sent."""
        return [int(sent) for sent, _ in self.by_rank(exercise, "bytes")]

    def received_bytes(self, exercise: str) -> list[int]:
        """List the bytes that each process received."""
        return [int(received) for _, received in self.by_rank(exercise, "bytes")]


def run_group(chapter: str, size: int, paths: Paths | None = None) -> GroupResults:
    """Run the exercises of a chapter in a gloo group, or load their results.

    Without PyTorch there are no results.
    """
    if installed_version("pytorch") is None:
        return GroupResults({})
    file = result_file(f"group-{chapter}", "pytorch", paths)
    if not file.exists():
        plan = ("horizont_textbook.group", f"horizont_textbook.{chapter}", "FOLDER", str(size))
        run_modules({chapter: plan}, {chapter: file}, f"a group of {size} over gloo")
    return GroupResults(load_arrays(file))


def relative_distance(values: Array, expected: Array) -> float:
    """Return the norm of the difference over the norm of the expected values."""
    return float(np.linalg.norm(values - expected) / (np.linalg.norm(expected) or 1.0))
