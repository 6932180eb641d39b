"""MXNet behind the protocol.

MXNet reads its settings from the environment while its library is loaded, so nothing here
imports it before :meth:`MXNetAdapter.configure` has made them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from horizont.errors import UserError
from horizont.frameworks.base import (
    Adapter,
    Coordinator,
    Examples,
    OnDisk,
    Recipe,
    Trainer,
    Windows,
)
from horizont.frameworks.operations import Operation
from horizont.spec import ProcessJob


class MXNetAdapter:
    """MXNet."""

    def configure(self, threads: int) -> None:
        """Set the threads and silence the library, then load it."""
        if "mxnet" in sys.modules:
            raise RuntimeError("MXNet is loaded already: its threads cannot be set any more")
        os.environ.update(settings(threads))
        # With a role in the environment the import itself would serve, and end the process.
        os.environ.pop("DMLC_ROLE", None)
        import_module("horizont.frameworks.mxnet.compat")

    def trainer(self, recipe: Recipe) -> Trainer:
        """Build a trainer that works alone."""
        from horizont.frameworks.mxnet.train import LocalTrainer

        return LocalTrainer(recipe)

    def worker(self, recipe: Recipe, job: ProcessJob) -> Trainer:
        """Join the job's parameter servers as a worker."""
        from horizont.frameworks.mxnet.distribute import ServedTrainer

        return ServedTrainer(recipe, job)

    def profile_trainer(self, recipe: Recipe) -> Trainer:
        """Build a trainer whose blocks do not run several operators as one."""
        from horizont.frameworks.mxnet.profile import show_singly
        from horizont.frameworks.mxnet.train import LocalTrainer

        trainer = LocalTrainer(recipe)
        show_singly(trainer)
        return trainer

    def profiled(
        self, work: Callable[[], None], trainer: Trainer, recipe: Recipe, folder: Path
    ) -> list[Operation]:
        """Do some work under MXNet's profiler."""
        from horizont.frameworks.mxnet.profile import profiled

        del trainer, recipe
        return profiled(work, folder)

    def serve(self, job: ProcessJob) -> None:
        """Be the scheduler or a server until the workers have left."""
        from horizont.frameworks.mxnet.serve import serve

        serve(job)

    def coordinate(
        self, recipe: Recipe, job: ProcessJob, examples: Examples | Windows | OnDisk
    ) -> Coordinator:
        """Refuse: MXNet's workers need no coordinator."""
        del recipe, examples
        raise UserError("role", job.role, ["scheduler", "server", "worker"])


def settings(threads: int) -> dict[str, str]:
    """Tell the variables that hold MXNet to a number of compute threads, quietly.

    Operators run one after another on a single thread of MXNet's engine, and each may use
    `threads` OpenMP threads. The interpreter's own thread only queues them.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MXNET_CPU_WORKER_NTHREADS": "1",
        "MXNET_CPU_PRIORITY_NTHREADS": "1",
        "MXNET_KVSTORE_REDUCTION_NTHREADS": str(threads),
        # A note for each operator that oneDNN does not offer, as all do in float64.
        "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0",
    }


ADAPTER: Adapter = MXNetAdapter()
