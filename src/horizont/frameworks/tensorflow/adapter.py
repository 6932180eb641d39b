"""TensorFlow behind the protocol."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

# Both are read when TensorFlow and Keras are imported, so they must stand before the import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever the user's own keras.json prefers

import tensorflow as tf

from horizont.config.jobs import WorkerJob
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
from horizont.frameworks.tensorflow import distributed, profiler
from horizont.frameworks.tensorflow.distributed import AllReduceTrainer, ParameterServerCoordinator
from horizont.frameworks.tensorflow.train import LocalTrainer


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

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer that works alone."""
        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the job's ring."""
        return AllReduceTrainer(setup, job)

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Build a trainer: one traced anew, since the profiler soon drops short operators."""
        return LocalTrainer(setup)

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Do some work under TensorFlow's profiler."""
        assert isinstance(trainer, LocalTrainer)
        return profiler.profile_operators(run_steps, folder, setup.network, trainer.step_graph())

    def serve(self, job: WorkerJob) -> None:
        """Serve as a worker or a parameter server that a coordinator tells what to do."""
        distributed.serve(job)

    def coordinator(
        self,
        setup: TrainingSetup,
        job: WorkerJob,
        data: InMemoryImages | TextWindows | ImagesOnDisk,
    ) -> Coordinator:
        """Lead the job's workers.

        The examples are left alone: each worker reads its own, in the order of its rank.
        """
        del data
        return ParameterServerCoordinator(setup, job)


ADAPTER: FrameworkAdapter = TensorFlowAdapter()
