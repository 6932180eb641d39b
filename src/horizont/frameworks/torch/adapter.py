"""PyTorch behind the protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

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
from horizont.frameworks.torch import profile
from horizont.frameworks.torch.distribute import AllReduceTrainer, LocalStepsTrainer
from horizont.frameworks.torch.parameter_server import ServedTrainer
from horizont.frameworks.torch.serve import serve
from horizont.frameworks.torch.train import LocalTrainer
from horizont.spec import ProcessJob


class TorchAdapter:
    """PyTorch."""

    def configure(self, threads: int) -> None:
        """Set the threads, within an operator and between operators."""
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def trainer(self, recipe: Recipe) -> Trainer:
        """Build a trainer that works alone."""
        return LocalTrainer(recipe)

    def worker(self, recipe: Recipe, job: ProcessJob) -> Trainer:
        """Join the job's process group, among equals or with servers."""
        if job.run.system.architecture == "parameter_server":
            return ServedTrainer(recipe, job)
        if job.run.exchange.average_every > 1:
            return LocalStepsTrainer(recipe, job)
        return AllReduceTrainer(recipe, job)

    def profile_trainer(self, recipe: Recipe) -> Trainer:
        """Build a trainer: its operators are always seen one by one."""
        return LocalTrainer(recipe)

    def profiled(
        self, work: Callable[[], None], trainer: Trainer, recipe: Recipe, folder: Path
    ) -> list[Operation]:
        """Do some work under PyTorch's profiler."""
        del trainer, recipe, folder
        return profile.profiled(work)

    def serve(self, job: ProcessJob) -> None:
        """Keep a part of the weights until the workers leave."""
        if job.role != "server":
            raise UserError("role", job.role, ["server", "worker"])
        serve(job)

    def coordinate(
        self, recipe: Recipe, job: ProcessJob, examples: Examples | Windows | OnDisk
    ) -> Coordinator:
        """Refuse: PyTorch's workers need no coordinator."""
        del recipe, examples
        raise UserError("role", job.role, ["server", "worker"])


ADAPTER: Adapter = TorchAdapter()
