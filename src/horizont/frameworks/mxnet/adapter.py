"""MXNet behind the protocol.

MXNet reads its settings from the environment while its library is loaded, so nothing here
imports it before :meth:`MXNetAdapter.configure` has made them.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from horizont.config.jobs import WorkerJob
from horizont.errors import UserError
from horizont.frameworks.base import (
    Coordinator,
    FrameworkAdapter,
    ImagesOnDisk,
    InMemoryImages,
    TextWindows,
    Trainer,
    TrainingSetup,
)
from horizont.frameworks.operators import OperatorCall


class MXNetAdapter:
    """MXNet."""

    def configure(self, threads: int) -> None:
        """Set the threads and silence the library, then load it."""
        if "mxnet" in sys.modules:
            raise RuntimeError("MXNet is loaded already: its threads cannot be set any more")
        os.environ.update(library_environment(threads))
        # With a role in the environment the import itself would serve, and end the process.
        os.environ.pop("DMLC_ROLE", None)
        import_module("horizont.frameworks.mxnet.compat")

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer that works alone."""
        from horizont.frameworks.mxnet.train import LocalTrainer

        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the job's parameter servers as a worker."""
        from horizont.frameworks.mxnet.kvstore import ParameterServerTrainer

        return ParameterServerTrainer(setup, job)

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer whose blocks do not run several operators as one."""
        from horizont.frameworks.mxnet.profiler import disable_operator_bulking
        from horizont.frameworks.mxnet.train import LocalTrainer

        trainer = LocalTrainer(setup)
        disable_operator_bulking(trainer)
        return trainer

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Do some work under MXNet's profiler."""
        from horizont.frameworks.mxnet.profiler import profile_operators

        del trainer, setup
        return profile_operators(run_steps, folder)

    def serve(self, job: WorkerJob) -> None:
        """Be the scheduler or a server until the workers have left."""
        from horizont.frameworks.mxnet.kvstore import serve

        serve(job)

    def coordinator(
        self,
        setup: TrainingSetup,
        job: WorkerJob,
        data: InMemoryImages | TextWindows | ImagesOnDisk,
    ) -> Coordinator:
        """Refuse: MXNet's workers need no coordinator."""
        del setup, data
        raise UserError("role", job.role, ["scheduler", "server", "worker"])


def library_environment(threads: int) -> dict[str, str]:
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


ADAPTER: FrameworkAdapter = MXNetAdapter()


def set_role(job: WorkerJob) -> None:
    """Take the job's role in this process; the next KVStore that it creates joins the others."""
    os.environ.update(role_environment(job))


def role_environment(job: WorkerJob) -> dict[str, str]:
    """Tell the variables that make a process what its job says.

    The scheduler is the meeting place. Each process listens on the address of its endpoint
    alone: left to itself, MXNet would take the first interface that is not the loopback.
    """
    endpoints = job.endpoints
    root_host, root_port = _address(endpoints.scheduler[0])
    own_host, own_port = _address(getattr(endpoints, job.role)[job.rank])
    return {
        "DMLC_ROLE": job.role,
        "DMLC_PS_ROOT_URI": root_host,
        "DMLC_PS_ROOT_PORT": root_port,
        "DMLC_NUM_WORKER": str(len(endpoints.worker)),
        "DMLC_NUM_SERVER": str(len(endpoints.server)),
        "DMLC_NODE_HOST": own_host,
        "PORT": own_port,
    }


def _address(endpoint: str) -> tuple[str, str]:
    """Take an endpoint apart; MXNet binds to numeric addresses only."""
    host, port = endpoint.rsplit(":", 1)
    return socket.gethostbyname(host), port
