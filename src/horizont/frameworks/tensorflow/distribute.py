"""TensorFlow among others: the cluster, its passive processes, and the synchronous ring."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horizont.frameworks.base import Recipe
from horizont.frameworks.tensorflow.remote_input import leave_order
from horizont.frameworks.tensorflow.stamps import time_after
from horizont.frameworks.tensorflow.train import LocalTrainer
from horizont.spec import ProcessJob

#: TensorFlow's names of the roles.
TASKS = {"worker": "worker", "server": "ps", "chief": "chief"}

#: Threads between operators where the operators of several processes wait for each other. With
#: fewer, waiting ones can take all threads and the awaited one never runs.
WAITING_THREADS = 4


class AllReduceTrainer(LocalTrainer):
    """A worker among equals that average their gradients: MultiWorkerMirroredStrategy, ring."""

    stages = ("forward", "backward", "communication", "update")

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=resolver(job),
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING
            ),
        )
        with self.strategy.scope():
            super().__init__(recipe)

    def _compile(self, recipe: Recipe) -> None:
        """Compile the meeting, too."""
        super()._compile(recipe)
        self.compiled_meeting = tf.function(self.meet, autograph=False, input_signature=[])

    def train(self, inputs: Any, labels: Any) -> Any:
        """Make one training step on the average of the workers' gradients."""
        _, loss, gradients = self.differentiate(inputs, labels)
        self.update(self.exchange(gradients))
        return loss

    def exchange(self, gradients: list[Any]) -> list[Any]:
        """Average the gradients over the workers."""
        averaged: list[Any] = self.strategy.run(_average, args=(gradients,))
        # Through identities, because a function may not hand out what a collective left.
        return [tf.identity(gradient) for gradient in averaged]

    def meet(self) -> Any:
        """Come together: no worker leaves before the last has come."""
        return self.strategy.run(_average, args=([tf.constant(1.0)],))[0]

    def exchange_timed(self, gradients: list[Any], times: list[Any]) -> list[Any]:
        """Average the gradients over the workers, as soon as each is there; read the clock."""
        averaged = self.exchange(gradients)
        times.append(time_after(averaged))
        return averaged

    def close(self) -> None:
        """Leave together: a worker that goes early is an error to the others."""
        self.compiled_meeting()


def _average(values: list[Any]) -> Any:
    """Average tensors over the workers, called on each of them by the strategy.

    The identities are made here, on the replica's device: the exchange wants to know where its
    tensors lie, and a constant or an argument of a function does not say.
    """
    placed = [tf.identity(value) for value in values]
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, placed)


def cluster_spec(job: ProcessJob) -> Any:
    """Tell TensorFlow who listens where."""
    endpoints = job.endpoints
    tasks = {"worker": endpoints.worker, "ps": endpoints.server, "chief": endpoints.chief}
    return tf.train.ClusterSpec({task: list(where) for task, where in tasks.items() if where})


def resolver(job: ProcessJob) -> Any:
    """Tell TensorFlow the cluster and this process's place in it, as TF_CONFIG would."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster_spec(job), task_type=TASKS[job.role], task_id=job.rank, rpc_layer="grpc"
    )


def serve(job: ProcessJob) -> None:
    """Do what a coordinator says, until the process is ended from outside."""
    if job.role == "worker":
        leave_order(job)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=job.run.topology.threads,
        inter_op_parallelism_threads=max(WAITING_THREADS, job.run.topology.threads),
    )
    server = tf.distribute.Server(
        cluster_spec(job),
        job_name=TASKS[job.role],
        task_index=job.rank,
        protocol="grpc",
        config=config,
    )
    server.join()
