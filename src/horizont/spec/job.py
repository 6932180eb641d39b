"""What one process is told: the file that the launcher writes and the process reads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from horizont.spec.base import Frozen
from horizont.spec.build import PLAIN, Build, trainer_name
from horizont.spec.run import Run
from horizont.spec.system import RoleName
from horizont.spec.workload import Workload

#: Files that the processes of an asynchronous run leave when its updates are recorded: what each
#: worker sent, what each server applied, the gradients, and the servers' weights in the end.
PUSHED_FILE = "pushed.jsonl"
APPLIED_FILE = "applied.jsonl"
GRADIENTS_FILE = "gradients.npz"
SERVED_FILE = "served.npz"


class Endpoints(Frozen):
    """Where the processes of a run listen, as `host:port`, by role and rank."""

    worker: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()


class ProcessJob(Frozen):
    """The work of one process of a run.

    Attributes
    ----------
    folder
        The process's own folder inside the record in the making: its working directory, where
        it leaves steps.parquet, result.json and, if asked, weights.npz.
    progress
        The file of the memory-mapped step counter.
    files_folder
        The data set in its official format; nothing if it is not read from there.
    start_line
        The file that appears when all have warmed up and hosts are held to their shares: before
        it is there, nobody makes a bare step. Nothing if nobody has to wait.
    """

    kind: Literal["train"] = "train"
    run: Run
    role: RoleName
    rank: int
    endpoints: Endpoints
    data_folder: Path
    folder: Path
    progress: Path
    files_folder: Path | None = None
    start_line: Path | None = None

    @property
    def build(self) -> Build:
        """How the framework builds the network."""
        return self.run.system.build


class TracePass(Frozen):
    """One training of the comparator.

    Attributes
    ----------
    variant
        `plain`, or a way of moving the rounding without changing the mathematics:
        `permuted` reverses the examples of each batch, `moved` starts from weights one unit
        in the last place larger, `threads` computes with another number of threads, which
        frameworks are told before they start: such a pass needs a process of its own.
    fault
        The name of a deliberate mistake, or nothing.
    """

    dtype: Literal["float32", "float64"]
    variant: Literal["plain", "permuted", "moved", "threads"] = "plain"
    fault: str | None = None

    @property
    def file(self) -> str:
        """The name of the file that the training leaves."""
        return f"{self.dtype}-{self.variant}-{self.fault or 'sound'}.npz"


class TraceJob(Frozen):
    """The work of one process of the comparator: train a little and tell every tensor.

    Attributes
    ----------
    passes
        The trainings, one after the other; each leaves a file in `folder`.
    at_steps
        Steps after which the weights are kept.
    """

    kind: Literal["trace"] = "trace"
    framework: str
    build: Build = PLAIN
    workload: Workload
    batch: int
    at_steps: tuple[int, ...]
    passes: tuple[TracePass, ...]
    seed: int
    threads: int = 1
    data_folder: Path
    folder: Path

    @property
    def trainer(self) -> str:
        """The framework with its build: `pytorch+compiled`."""
        return trainer_name(self.framework, self.build)
