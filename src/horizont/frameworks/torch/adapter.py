"""The adapter of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.tensor.parallel

from horizont.config.framework import Device
from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import FrameworkAdapter, Trainer, TrainingSetup
from horizont.frameworks.features import feature, names_exist
from horizont.frameworks.operators import OperatorCall
from horizont.frameworks.torch import distributed
from horizont.frameworks.torch.profiler import profile_operators
from horizont.frameworks.torch.server import serve
from horizont.frameworks.torch.train import LocalTrainer


class TorchAdapter(FrameworkAdapter):
    """PyTorch."""

    framework = "pytorch"

    def configure(self, threads: int, device: Device = "cpu") -> None:
        """Set the threads within an operator; operators do not run in parallel."""
        del device  # each tensor is created on it
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Return the trainer of a single process."""
        if setup.device == "cuda":
            from horizont.frameworks.torch import cuda

            return cuda.build_trainer(setup)
        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the process group of the job and return the trainer of a worker."""
        if job.run.system.architecture == "parameter_server":
            return distributed.ParameterServerTrainer(setup, job)
        if job.run.system.architecture == "mpi":
            from horizont.frameworks.torch import mpi

            return mpi.MpiTrainer(setup, job)
        if setup.device == "cuda":
            from horizont.frameworks.torch import cuda

            return cuda.build_worker(setup, job)
        if job.run.gradient_exchange.local_steps > 1:
            return distributed.LocalSGDTrainer(setup, job)
        return distributed.AllReduceTrainer(setup, job)

    def serve(self, job: WorkerJob) -> None:
        """Serve a slice of the weights until the workers have finished."""
        serve(job)

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Run steps under PyTorch's profiler; its operators run one by one in any trainer."""
        return profile_operators(run_steps, folder, setup.device)

    def features(self) -> dict[str, Any]:
        """Return what the installed PyTorch offers, and train a convolution for a step."""
        layer = torch.nn.Conv2d(16, 16, 3)
        layer(torch.ones(8, 16, 32, 32)).sum().backward()
        ddp = names_exist(torch, "torch.nn.parallel.DistributedDataParallel")
        gloo = "torch.distributed.is_gloo_available()"
        split = "torch.distributed.tensor.parallel.parallelize_module"
        return {
            "generic": names_exist(torch, "torch.nn.Linear", "torch.nn.Conv2d", "torch.nn.LSTM"),
            "machines": feature(torch.distributed.is_gloo_available(), gloo),
            "data_parallel": ddp,
            "model_parallel": names_exist(torch, split),
            "sync": ddp,
            "async": feature(False, "torch has no asynchronous trainer of its own"),
            "cpus": names_exist(torch, "torch.set_num_threads"),
            "gpus": feature(torch.version.cuda, "torch.version.cuda"),
        }


ADAPTER = TorchAdapter()
