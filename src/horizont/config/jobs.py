"""What one process is told: the file that the launcher writes and the process reads."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from horizont.config.base import ConfigModel
from horizont.config.run import Run
from horizont.config.system import DEFAULT, RoleName, Variant, qualified_name
from horizont.config.workload import Workload

#: Files that the processes of an asynchronous run leave when its updates are recorded: what each
#: worker sent, what each server applied, the gradients, and the servers' weights in the end.
PUSHED_FILE = "pushed.jsonl"
APPLIED_FILE = "applied.jsonl"
GRADIENTS_FILE = "gradients.npz"
SERVER_WEIGHTS_FILE = "server_weights.npz"


class Endpoints(ConfigModel):
    """Where the processes of a run listen, as `host:port`, by role and rank."""

    worker: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    scheduler: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()


class WorkerJob(ConfigModel):
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
    start_barrier: Path | None = None

    @property
    def variant(self) -> Variant:
        """How the framework builds the network."""
        return self.run.system.variant


class TraceRun(ConfigModel):
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
    perturbation: Literal["none", "batch_order", "weight_ulp", "thread_count"] = "none"
    mutation: str | None = None

    @property
    def file_name(self) -> str:
        """The name of the file that the training leaves."""
        return f"{self.dtype}-{self.perturbation}-{self.mutation or 'sound'}.npz"


class TraceJob(ConfigModel):
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
    variant: Variant = DEFAULT
    workload: Workload
    batch: int
    at_steps: tuple[int, ...]
    runs: tuple[TraceRun, ...]
    seed: int
    threads: int = 1
    data_folder: Path
    folder: Path

    @property
    def framework_variant(self) -> str:
        """The framework with its build: `pytorch+compiled`."""
        return qualified_name(self.framework, self.variant)
