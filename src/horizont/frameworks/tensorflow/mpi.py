"""Training with TensorFlow whose gradients MPI averages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import PhaseMark, TrainingSetup
from horizont.frameworks.mpi import LOST_RANK, MpiGroup
from horizont.frameworks.tensorflow.distributed import SynchronousTrainer
from horizont.frameworks.tensorflow.input import Batch


class MpiTrainer(SynchronousTrainer):
    """A worker that averages all gradients as one vector, in a Python function of the graph."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        self.group = MpiGroup(job)
        super().__init__(setup)

    def all_reduce(self, gradients: list[Any]) -> list[Any]:
        """Average the gradients over the workers."""
        types = [gradient.dtype for gradient in gradients]
        averaged: list[Any] = tf.numpy_function(self._average, gradients, types)
        for mean, gradient in zip(averaged, gradients, strict=True):
            mean.set_shape(gradient.shape)
        return averaged

    def _average(self, *gradients: NDArray[Any]) -> list[NDArray[Any]]:
        flat = np.concatenate([gradient.ravel() for gradient in gradients])
        self.group.average(flat)
        ends = np.cumsum([gradient.size for gradient in gradients])
        parts = zip(np.split(flat, ends[:-1]), gradients, strict=True)
        return [part.reshape(gradient.shape) for part, gradient in parts]

    def step(self, batch: Batch) -> Any:
        """Run one training step."""
        with self._graph_errors():
            return super().step(batch)

    def instrumented_step(self, batch: Batch, mark: PhaseMark) -> Any:
        """Run the same step."""
        with self._graph_errors():
            return super().instrumented_step(batch, mark)

    @contextmanager
    def _graph_errors(self) -> Iterator[None]:
        """Raise what the Python function raised, in place of the error of the graph."""
        try:
            yield
        except tf.errors.OpError as error:
            if not self.group.is_broken:
                raise
            raise ConnectionError(LOST_RANK) from error

    def close(self) -> None:
        """Leave the group."""
        self.group.close()
