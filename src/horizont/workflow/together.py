"""Groups of real processes for the theory notebooks, and what they came to."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.config.system import installed_version
from horizont.launchers.local import reserve_ports
from horizont.launchers.plan import ProcessPlan, thread_environment
from horizont.launchers.supervisor import run_as_group
from horizont.theory.together.exercises import largest_group
from horizont.theory.together.findings import Together
from horizont.workflow.answers import ground_of, keep_answers, read_answers
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.progress import Progress

DEADLINE_S = 300.0
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Doer:
    """Who can do the exercises, as which module, in groups of how many."""

    module: str
    members: int


#: TensorFlow and MXNet have no calls that send from one process to another (see chapter 7).
DOERS = {
    "numpy": Doer("horizont.theory.together", largest_group()),
    "pytorch": Doer("horizont.frameworks.calculus.together", 3),
}


def done_together(paths: Paths | None = None) -> Together:
    """Open what groups of processes came to; start them first if need be.

    Like the answers of the frameworks, it is kept below `data/theory` as long as versions and
    code are the same.

    Raises
    ------
    RunFailed
        If a process ends badly or they take too long. None is left running.
    """
    paths = paths or study_paths()
    files = {
        name: paths.textbook / f"together-{name}-{ground_of(name)}.npz"
        for name in DOERS
        if name == "numpy" or installed_version(name)
    }
    missing = {name: file for name, file in files.items() if not file.exists()}
    if missing:
        progress = Progress("group", len(missing))
        for name, file in missing.items():
            progress.start(f"of processes with {name}")
            _work(DOERS[name], file)
            progress.finish("done")
        progress.close()
    return Together({name: read_answers(file) for name, file in files.items()})


def _work(doer: Doer, file: Path) -> None:
    """Have a group do all exercises, and keep what its members say in one file."""
    with tempfile.TemporaryDirectory(prefix="horizont-") as made:
        folders = [Path(made, f"member-{rank}") for rank in range(doer.members)]
        with reserve_ports([HOST] * doer.members, 0) as ports:
            addresses = [f"{HOST}:{port}" for port in ports]
            run_as_group([_member(doer, folder, addresses) for folder in folders], DEADLINE_S)
        told: dict[str, NDArray[Any]] = {}
        for folder in folders:
            told |= read_answers(folder / "answers.npz")
        together = Path(made, "all.npz")
        np.savez(together, **told)
        keep_answers(together, file)


def _member(doer: Doer, folder: Path, addresses: list[str]) -> ProcessPlan:
    rank = folder.name.rpartition("-")[2]
    return ProcessPlan(
        name=folder.name,
        host=HOST,
        argv=(sys.executable, "-m", doer.module, str(folder), rank, *addresses),
        environment={**thread_environment(1), "TMPDIR": str(folder)},
        folder=folder,
        job=None,
    )
