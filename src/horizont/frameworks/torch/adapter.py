"""PyTorch behind the protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

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
from horizont.frameworks.torch import profiler
from horizont.frameworks.torch.distributed import (
    AllReduceTrainer,
    LocalSGDTrainer,
    ParameterServerTrainer,
)
from horizont.frameworks.torch.server import serve
from horizont.frameworks.torch.train import LocalTrainer


class TorchAdapter:
    """PyTorch."""

    def configure(self, threads: int) -> None:
        """Set the threads, within an operator and between operators."""
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer that works alone."""
        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the job's process group, among equals or with servers."""
        if job.run.system.architecture == "parameter_server":
            return ParameterServerTrainer(setup, job)
        if job.run.gradient_exchange.local_steps > 1:
            return LocalSGDTrainer(setup, job)
        return AllReduceTrainer(setup, job)

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer: its operators are always seen one by one."""
        return LocalTrainer(setup)

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Do some work under PyTorch's profiler."""
        del trainer, setup, folder
        return profiler.profile_operators(run_steps)

    def serve(self, job: WorkerJob) -> None:
        """Keep a part of the weights until the workers leave."""
        if job.role != "server":
            raise UserError("role", job.role, ["server", "worker"])
        serve(job)

    def coordinator(
        self,
        setup: TrainingSetup,
        job: WorkerJob,
        data: InMemoryImages | TextWindows | ImagesOnDisk,
    ) -> Coordinator:
        """Refuse: PyTorch's workers need no coordinator."""
        del setup, data
        raise UserError("role", job.role, ["server", "worker"])


ADAPTER: FrameworkAdapter = TorchAdapter()
