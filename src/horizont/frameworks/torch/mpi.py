"""Training with PyTorch whose gradients MPI averages."""

from __future__ import annotations

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import PhaseMark, TrainingSetup
from horizont.frameworks.mpi import MpiGroup
from horizont.frameworks.torch.input import Batch
from horizont.frameworks.torch.train import LocalTrainer


class MpiTrainer(LocalTrainer):
    """A worker that averages all gradients as one vector after the backward pass."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        super().__init__(setup)
        self.group = MpiGroup(job)

    def step(self, batch: Batch) -> torch.Tensor:
        """Run one training step."""
        loss = self.forward(batch)
        loss.backward()
        self._average_gradients()
        self.update()
        return loss.detach()

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> torch.Tensor:
        """Run the same step."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()
        mark("backward")
        self._average_gradients()
        mark("communication")
        self.update()
        mark("update")
        return loss.detach()

    def _average_gradients(self) -> None:
        gradients = [weight.grad for weight in self.parameters.values() if weight.grad is not None]
        flat = parameters_to_vector(gradients)
        self.group.average(flat.numpy())
        vector_to_parameters(flat, gradients)

    def close(self) -> None:
        """Leave the group."""
        self.group.close()
