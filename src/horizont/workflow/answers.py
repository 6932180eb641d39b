"""The questions of the theory notebooks, asked of every framework in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.system import FRAMEWORKS, installed_version
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_in_parallel
from horizont.records.provenance import code_fingerprint
from horizont.theory.chapters import chapter_names, questions_of
from horizont.theory.questions import Question
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import PACKAGE_FOLDER, hash_fields

MODULE = "horizont.frameworks.calculus"
DEADLINE_S = 300.0

#: Arrays by `<question>/<what>`.
Told = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Answers:
    """What the frameworks answered.

    Attributes
    ----------
    told
        By framework; one that is not installed is left out.
    """

    questions: tuple[Question, ...]
    told: Mapping[str, Told]

    def of(self, question: str, what: str) -> dict[str, NDArray[Any]]:
        """Take one array of each framework."""
        return {name: told[f"{question}/{what}"] for name, told in self.told.items()}


def framework_answers(chapter: str, paths: Paths | None = None) -> Answers:
    """Open what the frameworks answer to a chapter's questions; ask them first if need be.

    To start a framework takes much longer than to answer, so the first chapter asks for all.
    Answers are kept below `data/theory` as long as versions, questions and code are the same.

    Raises
    ------
    UserError
        If there is no such chapter.
    RunFailed
        If a process ends badly or takes too long.
    """
    paths = paths or study_paths()
    questions = questions_of(chapter)
    files = {
        name: paths.textbook / f"{name}-{ground_of(name)}.npz"
        for name in FRAMEWORKS
        if installed_version(name)
    }
    missing = {name: file for name, file in files.items() if not file.exists()}
    if missing:
        every = [question for name in chapter_names() for question in questions_of(name)]
        ask(every, missing)
    return Answers(tuple(questions), {name: read_answers(file) for name, file in files.items()})


def ask(questions: Sequence[Question], files: Mapping[str, Path]) -> None:
    """Ask some frameworks at the same time.

    Parameters
    ----------
    files
        Where the answers of each are to lie; they appear whole or not at all.
    """
    progress = Progress("framework", len(files))
    progress.start("asked about the theory")
    with tempfile.TemporaryDirectory(prefix="horizont-") as made:
        processes = [_asking(name, questions, Path(made, name)) for name in files]
        run_in_parallel(
            processes, DEADLINE_S, lambda planned: progress.finish(f"{planned.name} answered")
        )
        for name, file in files.items():
            keep_answers(Path(made, name, "answers.npz"), file)
    progress.close()


def keep_answers(made: Path, file: Path) -> None:
    """Copy a file of answers to where it is kept; there it appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.tmp")
    partial.write_bytes(made.read_bytes())
    partial.replace(file)


def read_answers(file: Path) -> Told:
    """Read a file of answers."""
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _asking(framework: str, questions: Sequence[Question], folder: Path) -> ProcessPlan:
    """Write the questions down and plan the process that answers them."""
    folder.mkdir()
    listed = json.dumps([question.described() for question in questions])
    (folder / "questions.json").write_text(listed, encoding="utf-8")
    given = {f"{q.name}/{name}": value for q in questions for name, value in q.given.items()}
    np.savez(folder / "given.npz", **given)
    return ProcessPlan(
        name=framework,
        host="127.0.0.1",
        argv=(sys.executable, "-m", MODULE, framework, str(folder)),
        environment={**thread_environment(1), "TMPDIR": str(folder)},
        folder=folder,
        job=None,
    )


def ground_of(framework: str) -> str:
    """Name what answers rest on: the framework's version, and the code of both sides.

    For what is done in NumPy alone, `framework` is `numpy`.
    """
    code = code_fingerprint(
        [PACKAGE_FOLDER / "chapters", PACKAGE_FOLDER / "frameworks" / "calculus"]
    )
    version = installed_version(framework) if framework in FRAMEWORKS else None
    about = {"version": str(version), "numpy": np.__version__, "code": code}
    return hash_fields(about)
