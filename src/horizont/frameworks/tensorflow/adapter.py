"""The adapter of TensorFlow."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Both are read when TensorFlow and Keras are imported, so they must stand before the import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"  # overrides the user's own keras.json

import tensorflow as tf

from horizont.config.framework import Device
from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import (
    Coordinator,
    FrameworkAdapter,
    Trainer,
    TrainingData,
    TrainingSetup,
)
from horizont.frameworks.features import feature, names_exist
from horizont.frameworks.operators import OperatorCall
from horizont.frameworks.tensorflow.distributed import AllReduceTrainer
from horizont.frameworks.tensorflow.parameter_server import ParameterServerCoordinator, serve
from horizont.frameworks.tensorflow.profiler import profile_operators
from horizont.frameworks.tensorflow.train import LocalTrainer


class TensorFlowAdapter(FrameworkAdapter):
    """TensorFlow."""

    framework = "tensorflow"

    def configure(self, threads: int, device: Device = "cpu") -> None:
        """Set the threads and log errors only.

        One thread between operators: these networks are chains without operators that could run
        in parallel, and a second thread would compute besides the threads that were granted.
        """
        del device  # its systems compute on the CPU only
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        for name in ("absl", "tensorflow"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Return the trainer of a single process."""
        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the ring of the job and return the trainer of a worker."""
        if job.run.system.architecture == "mpi":
            from horizont.frameworks.tensorflow import mpi

            return mpi.MpiTrainer(setup, job)
        return AllReduceTrainer(setup, job)

    def coordinator(self, setup: TrainingSetup, job: WorkerJob, data: TrainingData) -> Coordinator:
        """Return the coordinator; each worker reads its own examples, in the order of its rank."""
        return ParameterServerCoordinator(setup, job)

    def serve(self, job: WorkerJob) -> None:
        """Serve as a worker or a parameter server that a coordinator controls."""
        serve(job)

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Run steps under TensorFlow's profiler, which drops short operators of an old trainer."""
        assert isinstance(trainer, LocalTrainer)
        return profile_operators(run_steps, folder, setup.network, trainer.step_graph())

    def features(self) -> dict[str, Any]:
        """Return what the installed TensorFlow offers, and train a convolution for a step."""
        tf.function(_convolution_step)(tf.ones((8, 32, 32, 16)), tf.ones((3, 3, 16, 16)))
        ring = "tf.distribute.MultiWorkerMirroredStrategy"
        servers = "tf.distribute.ParameterServerStrategy"
        layers = ("tf.keras.layers.Dense", "tf.keras.layers.Conv2D", "tf.keras.layers.LSTM")
        threads = "tf.config.threading.set_intra_op_parallelism_threads"
        return {
            "generic": names_exist(tf, *layers),
            "machines": names_exist(tf, ring),
            "data_parallel": names_exist(tf, ring, servers),
            "model_parallel": names_exist(tf, "tf.keras.distribution.ModelParallel"),
            "sync": names_exist(tf, ring),
            "async": names_exist(tf, servers),
            "cpus": names_exist(tf, threads),
            "gpus": feature(tf.test.is_built_with_cuda(), "tf.test.is_built_with_cuda()"),
        }


def _convolution_step(images: Any, kernel: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        loss = tf.reduce_sum(tf.nn.conv2d(images, kernel, 1, "SAME"))
    return tape.gradient(loss, kernel)


ADAPTER = TensorFlowAdapter()
