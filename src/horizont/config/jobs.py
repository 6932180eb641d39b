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


#: What runs the steps of a trace: the step that is timed, the instrumented step, the trainer of the
#: profiled steps, or the timed step once with each batch size and learning rate of the study.
TracePath = Literal["plain", "instrumented", "profiled", "timed_batches"]

#: Changes that leave the mathematics as it is. ``repeat`` changes nothing; ``weight_ulp`` and
#: ``weight_ulp_down`` start from weights one unit in the last place larger or smaller;
#: ``thread_count`` uses another number of threads, which a framework reads when it starts, so that
#: it needs a process of its own; ``batch_order`` permutes the rows of each batch.
Perturbation = Literal[
    "none", "repeat", "weight_ulp", "weight_ulp_down", "thread_count", "batch_order"
]

#: Steps of a run that verifies a property which shows at once.
SHORT_TRACE_STEPS = 5


class TraceRun(ConfigModel):
    """One short training whose tensors the comparator records; `mutation` is a seeded defect."""

    dtype: Literal["float32", "float64"]
    perturbation: Perturbation = "none"
    path: TracePath = "plain"
    mutation: str | None = None

    @property
    def is_short(self) -> bool:
        """Whether only the first steps are recorded."""
        return self.path != "plain" or self.perturbation in ("repeat", "batch_order")

    @property
    def file_name(self) -> str:
        """The name of the file with the tensors."""
        parts = (self.dtype, self.path, self.perturbation, self.mutation or "sound")
        return f"{'-'.join(parts)}.npz"


class TraceJob(ConfigModel):
    """The work of one process of the comparator: some trainings, one after the other.

    Attributes
    ----------
    at_steps
        Steps after which the weights are recorded.
    timed_batches, learning_rates
        Those of the study's runs, except the learning rate of the workload.
    longest_run
        The steps of the study's longest run, if float64 trainings shall be as long.
    """

    kind: Literal["trace"] = "trace"
    framework: str
    variant: str = DEFAULT
    workload: Workload
    batch: int
    at_steps: tuple[int, ...]
    timed_batches: tuple[int, ...] = ()
    learning_rates: tuple[float, ...] = ()
    longest_run: int = 0
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

    def steps_of(self, trace_run: TraceRun) -> tuple[int, ...]:
        """Return the steps after which a run records its weights."""
        if not trace_run.is_short:
            is_longer = self.longest_run > self.at_steps[-1] and trace_run.dtype == "float64"
            return (*self.at_steps, self.longest_run) if is_longer else self.at_steps
        # The last batch of the longer runs is a partial one.
        short = [step for step in self.at_steps[:-1] if step <= SHORT_TRACE_STEPS]
        return tuple(dict.fromkeys((short[0], short[-1]))) if short else self.at_steps[:1]
