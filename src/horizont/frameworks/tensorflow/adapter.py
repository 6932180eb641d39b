"""TensorFlow behind the protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

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
from horizont.frameworks.tensorflow import distribute, profile
from horizont.frameworks.tensorflow.distribute import AllReduceTrainer
from horizont.frameworks.tensorflow.parameter_server import ParameterServerCoordinator
from horizont.frameworks.tensorflow.train import LocalTrainer
from horizont.spec import ProcessJob


class TensorFlowAdapter:
    """TensorFlow."""

    def configure(self, threads: int) -> None:
        """Set the threads and silence what is no error.

        One thread between operators: these networks are chains with nothing to run side by
        side, and a second one would compute beyond the threads that were granted.
        """
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        for name in ("absl", "tensorflow"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def trainer(self, recipe: Recipe) -> Trainer:
        """Build a trainer that works alone."""
        return LocalTrainer(recipe)

    def worker(self, recipe: Recipe, job: ProcessJob) -> Trainer:
        """Join the job's ring."""
        return AllReduceTrainer(recipe, job)

    def profile_trainer(self, recipe: Recipe) -> Trainer:
        """Build a trainer: one traced anew, since the profiler soon drops short operators."""
        return LocalTrainer(recipe)

    def profiled(
        self, work: Callable[[], None], trainer: Trainer, recipe: Recipe, folder: Path
    ) -> list[Operation]:
        """Do some work under TensorFlow's profiler."""
        assert isinstance(trainer, LocalTrainer)
        return profile.profiled(work, folder, recipe.network, trainer.step_graph())

    def serve(self, job: ProcessJob) -> None:
        """Serve as a worker or a parameter server that a coordinator tells what to do."""
        distribute.serve(job)

    def coordinate(
        self, recipe: Recipe, job: ProcessJob, examples: Examples | Windows | OnDisk
    ) -> Coordinator:
        """Lead the job's workers.

        The examples are left alone: each worker reads its own, in the order of its rank.
        """
        del examples
        return ParameterServerCoordinator(recipe, job)


ADAPTER: Adapter = TensorFlowAdapter()
