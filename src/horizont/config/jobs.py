"""Jobs: the file that a launcher writes and a process reads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from horizont.config.base import ConfigModel
from horizont.config.framework import Device, RoleName
from horizont.config.run import Run
from horizont.config.system import DEFAULT, trainer_name
from horizont.config.workload import Workload

#: Files written by the processes of an asynchronous run whose updates are recorded: the gradients
#: that each worker pushed, the updates that each server applied, and the servers' final weights.
PUSHED_FILE = "pushed.jsonl"
APPLIED_FILE = "applied.jsonl"
GRADIENTS_FILE = "gradients.npz"
SERVER_WEIGHTS_FILE = "server_weights.npz"


class Endpoints(ConfigModel):
    """The addresses of the processes of a run, as `host:port`, by role and rank."""

    worker: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()


class WorkerJob(ConfigModel):
    """The work of one process of a run.

    Attributes
    ----------
    folder
        The working directory of the process, inside the unfinished record; it writes
        steps.parquet, summary.json and, if requested, weights.npz there.
    progress
        The file of the memory-mapped step counter.
    files_folder
        The data set in its official format, if the input pipeline reads files.
    start_barrier
        A file that the launcher creates when all processes have warmed up and the CPU quotas
        apply; timed steps wait for it. None if there is nothing to wait for.
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
    start_barrier: Path | None = None

    @property
    def framework(self) -> str:
        """The framework that the process loads."""
        return self.run.system.framework

    @property
    def variant(self) -> str:
        """The variant of the framework."""
        return self.run.system.variant

    @property
    def device(self) -> Device:
        """Where the process computes; only workers use a GPU."""
        return self.run.topology.device if self.role == "worker" else "cpu"


class TraceRun(ConfigModel):
    """One short training whose tensors the comparator records.

    Attributes
    ----------
    perturbation
        A change of the rounding that leaves the mathematics as it is: `batch_order` reverses the
        examples of each batch, `weight_ulp` starts from weights one unit in the last place
        larger, `thread_count` uses another number of threads, which a framework reads when it
        starts: such a run needs a process of its own.
    mutation
        The name of a seeded defect.
    """

    dtype: Literal["float32", "float64"]
    perturbation: Literal["none", "batch_order", "weight_ulp", "thread_count"] = "none"
    mutation: str | None = None

    @property
    def file_name(self) -> str:
        """The name of the file with the tensors."""
        return f"{self.dtype}-{self.perturbation}-{self.mutation or 'sound'}.npz"


class TraceJob(ConfigModel):
    """The work of one process of the comparator.

    Attributes
    ----------
    runs
        Trainings, one after the other; each writes a file to `folder`.
    at_steps
        Steps after which the weights are recorded.
    """

    kind: Literal["trace"] = "trace"
    framework: str
    variant: str = DEFAULT
    workload: Workload
    batch: int
    at_steps: tuple[int, ...]
    runs: tuple[TraceRun, ...]
    seed: int
    threads: int = 1
    device: Device = "cpu"
    data_folder: Path
    folder: Path

    @property
    def framework_variant(self) -> str:
        """Framework, variant and device, `<framework>+<variant>+<device>`."""
        return trainer_name(self.framework, self.variant, self.device)
