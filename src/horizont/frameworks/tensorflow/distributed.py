"""Distributed training with TensorFlow: the tasks, and MultiWorkerMirroredStrategy."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import tensorflow as tf

from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import TrainingSetup
from horizont.frameworks.tensorflow.train import LocalTrainer, timestamp_after

#: TensorFlow's names of the roles.
TASKS = {"worker": "worker", "server": "ps", "chief": "chief"}

#: Threads between operators where operators of several processes wait for each other. With fewer,
#: waiting operators can occupy all threads, and the one they wait for never runs.
MIN_INTER_OP_THREADS = 4


class SynchronousTrainer(LocalTrainer):
    """A worker that averages its gradients with those of the others before the update."""

    stages = ("forward", "backward", "communication", "update")

    def train(self, inputs: Any, labels: Any) -> Any:
        """Run one training step on the mean gradients of the workers."""
        _, loss, gradients = self.differentiate(inputs, labels)
        self.update(self.all_reduce(gradients))
        return loss

    @abstractmethod
    def all_reduce(self, gradients: list[Any]) -> list[Any]:
        """Average the gradients over the workers."""

    def all_reduce_with_timestamp(self, gradients: list[Any], times: list[Any]) -> list[Any]:
        """Average each gradient as soon as it is available; append the time of the last."""
        averaged = self.all_reduce(gradients)
        times.append(timestamp_after(averaged))
        return averaged


class AllReduceTrainer(SynchronousTrainer):
    """A worker that averages gradients with the others: MultiWorkerMirroredStrategy, ring."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=cluster_resolver(job),
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING
            ),
        )
        with self.strategy.scope():
            super().__init__(setup)

    def _compile(self, setup: TrainingSetup) -> None:
        """Compile the barrier, too."""
        super()._compile(setup)
        self.compiled_barrier = tf.function(self.barrier, autograph=False, input_signature=[])

    def all_reduce(self, gradients: list[Any]) -> list[Any]:
        """Average the gradients over the workers."""
        averaged: list[Any] = self.strategy.run(_all_reduce_mean, args=(gradients,))
        # Identities, because a function must not return the output of a collective operation.
        return [tf.identity(gradient) for gradient in averaged]

    def barrier(self) -> Any:
        """Block until all workers have reached this point."""
        return self.strategy.run(_all_reduce_mean, args=([tf.constant(1.0)],))[0]

    def close(self) -> None:
        """Leave together: the others fail if one worker leaves early."""
        self.compiled_barrier()


def _all_reduce_mean(values: list[Any]) -> Any:
    """Average tensors over the workers; the strategy calls it on each of them.

    The identities place the tensors on the replica's device: all_reduce needs to know their
    device, which a constant or an argument of a function does not have.
    """
    placed = [tf.identity(value) for value in values]
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, placed)


def cluster_spec(job: WorkerJob) -> Any:
    """Return the addresses of all tasks."""
    endpoints = job.endpoints
    tasks = {"worker": endpoints.worker, "ps": endpoints.server, "chief": endpoints.chief}
    return tf.train.ClusterSpec(
        {task: list(addresses) for task, addresses in tasks.items() if addresses}
    )


def cluster_resolver(job: WorkerJob) -> Any:
    """Return the cluster and the task of this process, as TF_CONFIG would describe them."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster_spec(job), task_type=TASKS[job.role], task_id=job.rank, rpc_layer="grpc"
    )
