"""The adapter of MXNet.

MXNet reads its settings from the environment while its library is loaded. So this module does not
import it, and :meth:`MXNetAdapter.configure` sets the environment before it does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from socket import gethostbyname
from typing import Any

from horizont.config.framework import Device
from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import FrameworkAdapter, Trainer, TrainingSetup
from horizont.frameworks.endpoints import split_endpoint
from horizont.frameworks.features import feature, names_exist
from horizont.frameworks.operators import OperatorCall


class MXNetAdapter(FrameworkAdapter):
    """MXNet."""

    framework = "mxnet"

    def configure(self, threads: int, device: Device = "cpu") -> None:
        """Set the threads and the verbosity of the library, then load it."""
        del device  # its systems compute on the CPU only
        if "mxnet" in sys.modules:
            raise RuntimeError("MXNet is loaded already: its threads cannot be set any more")
        os.environ.update(library_environment(threads))
        # With a role in the environment the import itself would serve, and end the process.
        os.environ.pop("DMLC_ROLE", None)
        import mxnet  # noqa: F401

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Return the trainer of a single process."""
        from horizont.frameworks.mxnet.train import LocalTrainer

        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Connect to the parameter servers of the job and return the trainer of a worker."""
        from horizont.frameworks.mxnet.kvstore import ParameterServerTrainer

        return ParameterServerTrainer(setup, job)

    def serve(self, job: WorkerJob) -> None:
        """Run the scheduler or a server until the workers have left."""
        from horizont.frameworks.mxnet.kvstore import serve

        serve(job)

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Return a trainer whose blocks do not run several operators as one."""
        from horizont.frameworks.mxnet.profiler import disable_operator_bulking
        from horizont.frameworks.mxnet.train import LocalTrainer

        trainer = LocalTrainer(setup)
        disable_operator_bulking(trainer)
        return trainer

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Run steps under MXNet's profiler."""
        from horizont.frameworks.mxnet.profiler import profile_operators

        return profile_operators(run_steps, folder)

    def features(self) -> dict[str, Any]:
        """Return what the installed MXNet offers, and train a convolution for a step."""
        import mxnet as mx

        layer = mx.gluon.nn.Conv2D(16, 3, in_channels=16)
        layer.initialize()
        with mx.autograd.record():
            loss = layer(mx.nd.ones((8, 16, 32, 32))).sum()
        loss.backward()
        mx.nd.waitall()
        built = mx.runtime.Features()

        def enabled(name: str) -> dict[str, Any]:
            return feature(built.is_enabled(name), f"mx.runtime.Features().is_enabled({name!r})")

        layers = ("mx.gluon.nn.Dense", "mx.gluon.nn.Conv2D", "mx.gluon.rnn.LSTM")
        return {
            "generic": names_exist(mx, *layers),
            "machines": enabled("DIST_KVSTORE"),
            "data_parallel": names_exist(mx, "mx.kv.create", "mx.gluon.Trainer"),
            "model_parallel": names_exist(mx, "mx.AttrScope"),
            "sync": enabled("DIST_KVSTORE"),
            "async": enabled("DIST_KVSTORE"),
            "cpus": enabled("OPENMP"),
            "gpus": enabled("CUDA"),
        }


def library_environment(threads: int) -> dict[str, str]:
    """Return the variables that limit MXNet to a number of compute threads.

    Operators run one after another on a single thread of MXNet's engine, and each may use
    `threads` OpenMP threads. The thread of the interpreter only queues them.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MXNET_CPU_WORKER_NTHREADS": "1",
        "MXNET_CPU_PRIORITY_NTHREADS": "1",
        "MXNET_KVSTORE_REDUCTION_NTHREADS": str(threads),
        # Otherwise MXNet logs each operator that oneDNN does not offer: all of them in float64.
        "MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0",
    }


def set_role(job: WorkerJob) -> None:
    """Set the role of the job in this process; the next KVStore that it creates connects."""
    os.environ.update(role_environment(job))


def role_environment(job: WorkerJob) -> dict[str, str]:
    """Return the variables that give a process the role of its job.

    All processes connect to the scheduler. Each one listens on the address of its endpoint only;
    by default MXNet would take the first interface that is not the loopback. It binds to numeric
    addresses only.
    """
    endpoints = job.endpoints
    root_host, root_port = split_endpoint(endpoints.scheduler[0])
    own_host, own_port = split_endpoint(getattr(endpoints, job.role)[job.rank])
    return {
        "DMLC_ROLE": job.role,
        "DMLC_PS_ROOT_URI": gethostbyname(root_host),
        "DMLC_PS_ROOT_PORT": str(root_port),
        "DMLC_NUM_WORKER": str(len(endpoints.worker)),
        "DMLC_NUM_SERVER": str(len(endpoints.server)),
        "DMLC_NODE_HOST": gethostbyname(own_host),
        "PORT": str(own_port),
    }


ADAPTER = MXNetAdapter()
