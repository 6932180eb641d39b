"""PyTorch behind the protocol."""

from __future__ import annotations

import torch

from horizont.errors import UserError
from horizont.frameworks.base import Adapter, Coordinator, Examples, Recipe, Trainer, Windows
from horizont.frameworks.torch.distribute import AllReduceTrainer
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
        """Join the job's process group."""
        return AllReduceTrainer(recipe, job)

    def serve(self, job: ProcessJob) -> None:
        """Refuse: no PyTorch system has passive processes yet."""
        raise UserError("role", job.role, "worker")

    def coordinate(
        self, recipe: Recipe, job: ProcessJob, examples: Examples | Windows
    ) -> Coordinator:
        """Refuse: no PyTorch system has a coordinator yet."""
        del recipe, examples
        raise UserError("role", job.role, "worker")


ADAPTER: Adapter = TorchAdapter()
