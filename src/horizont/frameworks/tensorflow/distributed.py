"""The input of a worker that is led by a coordinator: it reads the examples on its own side.

The worker lays down the order in which it sees the examples in a file of its working directory
before it serves. The coordinator sends the pipeline, as a graph, to run there: it opens the
worker's file and the worker's copy of the data set. No example crosses the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from horizont.config.jobs import WorkerJob
from horizont.data.prepared import read_description
from horizont.data.sharding import example_order
from horizont.frameworks.base import RemoteStep, TrainingSetup, Weights
from horizont.frameworks.tensorflow.input import (
    Convert,
    fetcher,
    input_converter,
    limit_threads,
    window_fetcher,
)
from horizont.frameworks.tensorflow.layers import ServerRecurrentStates
from horizont.frameworks.tensorflow.model import FusedCrossEntropy, build_model
from horizont.frameworks.tensorflow.optimizer import Optimizer
from horizont.frameworks.tensorflow.train import LocalTrainer, after_last_timestamp, timestamp_after

#: The worker's rank and then the indices of its batches, int64. Without a folder: a worker's
#: working directory is its own.
ORDER_FILE = "order.int64"


def write_order(job: WorkerJob) -> None:
    """Lay down which examples this worker sees, batch by batch."""
    order = example_order(job.run, job.rank, read_description(job.data_folder))
    np.concatenate([[job.rank], *order]).astype(np.int64).tofile(ORDER_FILE)


def remote_dataset(job: WorkerJob, convert: Convert) -> Any:
    """Describe the pipeline of whichever worker this is called for.

    A worker that is faster than the others makes more than its share of the steps; it then
    starts with its order anew.

    Returns
    -------
    tf.data.Dataset
        Elements are (rank, inputs, labels).
    """
    if read_description(job.data_folder).kind == "text":
        words = _read_array(job.data_folder / "train_tokens.npy")
        fetch = window_fetcher(words, job.run.workload.time_steps)
    else:
        images = tf.transpose(_read_array(job.data_folder / "train_images.npy"), (0, 2, 3, 1))
        fetch = fetcher(images, _read_array(job.data_folder / "train_labels.npy"), convert)
    numbers = tf.io.decode_raw(tf.io.read_file(ORDER_FILE), tf.int64)
    order = tf.data.Dataset.from_tensor_slices(tf.reshape(numbers[1:], (-1, job.run.local_batch)))
    return limit_threads(order.map(lambda indices: (numbers[0], *fetch(indices))).repeat())


def _read_array(path: Path) -> Any:
    """Read a NumPy file with TensorFlow's means; its header is known from the copy that is here."""
    known = np.load(path, mmap_mode="r")
    content = tf.strings.substr(tf.io.read_file(str(path)), known.offset, known.nbytes)
    return tf.reshape(tf.io.decode_raw(content, known.dtype), known.shape)


#: What an instrumented step does one after the other.
INSTRUMENTED_STAGES = ("load", "communication", "forward", "backward", "communication")


def read_from_server(variable: Any) -> Any:
    """Bring a variable from its server to where this is built."""
    return tf.identity(variable.read_value())


def pack_report(rank: Any, loss: Any, times: Sequence[Any]) -> Any:
    """Pack what a worker tells of a step into one small tensor, float64."""
    return tf.stack([tf.cast(value, tf.float64) for value in (rank, loss, *times)])


def remote_steps(reports: Sequence[Any]) -> list[RemoteStep]:
    """Lay out the reports of a segment as rows, in the order in which the steps began.

    A worker's step begins with the end of its step before, as in a worker that has its own
    loop: what passes until the coordinator's next word has come is a part of the step, outside
    its phases. The first step of the segment begins when the worker begins it.

    Parameters
    ----------
    reports
        Each is rank, loss, and two times or one more than there are stages, in seconds.
    """
    rows = []
    free_s: dict[int, float] = {}
    for rank, loss, *times in sorted(reports, key=lambda report: float(report[2])):
        worker = int(rank)
        rows.append(
            RemoteStep(
                worker=worker,
                start_unix_s=free_s.get(worker, float(times[0])),
                end_unix_s=float(times[-1]),
                phases_s=_phases(times) if len(times) > 2 else {},
                loss=float(loss),
            )
        )
        free_s[worker] = float(times[-1])
    return rows


def _phases(times: Sequence[float]) -> dict[str, float]:
    """Sum the stages by phase."""
    phases: dict[str, float] = {}
    for stage, begun, ended in zip(INSTRUMENTED_STAGES, times[:-1], times[1:], strict=True):
        phases[stage] = phases.get(stage, 0.0) + float(ended - begun)
    return phases


#: TensorFlow's names of the roles.
TASKS = {"worker": "worker", "server": "ps", "chief": "chief"}

#: Threads between operators where the operators of several processes wait for each other. With
#: fewer, waiting ones can take all threads and the awaited one never runs.
MIN_INTER_OP_THREADS = 4


class AllReduceTrainer(LocalTrainer):
    """A worker among equals that average their gradients: MultiWorkerMirroredStrategy, ring."""

    stages = ("forward", "backward", "communication", "update")

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
        """Compile the meeting, too."""
        super()._compile(setup)
        self.compiled_barrier = tf.function(self.barrier, autograph=False, input_signature=[])

    def train(self, inputs: Any, labels: Any) -> Any:
        """Make one training step on the average of the workers' gradients."""
        _, loss, gradients = self.differentiate(inputs, labels)
        self.update(self.all_reduce(gradients))
        return loss

    def all_reduce(self, gradients: list[Any]) -> list[Any]:
        """Average the gradients over the workers."""
        averaged: list[Any] = self.strategy.run(_all_reduce_mean, args=(gradients,))
        # Through identities, because a function may not hand out what a collective left.
        return [tf.identity(gradient) for gradient in averaged]

    def barrier(self) -> Any:
        """Come together: no worker leaves before the last has come."""
        return self.strategy.run(_all_reduce_mean, args=([tf.constant(1.0)],))[0]

    def all_reduce_with_timestamp(self, gradients: list[Any], times: list[Any]) -> list[Any]:
        """Average the gradients over the workers, as soon as each is there; read the clock."""
        averaged = self.all_reduce(gradients)
        times.append(timestamp_after(averaged))
        return averaged

    def close(self) -> None:
        """Leave together: a worker that goes early is an error to the others."""
        self.compiled_barrier()


def _all_reduce_mean(values: list[Any]) -> Any:
    """Average tensors over the workers, called on each of them by the strategy.

    The identities are made here, on the replica's device: the exchange wants to know where its
    tensors lie, and a constant or an argument of a function does not say.
    """
    placed = [tf.identity(value) for value in values]
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, placed)


def cluster_spec(job: WorkerJob) -> Any:
    """Tell TensorFlow who listens where."""
    endpoints = job.endpoints
    tasks = {"worker": endpoints.worker, "ps": endpoints.server, "chief": endpoints.chief}
    return tf.train.ClusterSpec({task: list(where) for task, where in tasks.items() if where})


def cluster_resolver(job: WorkerJob) -> Any:
    """Tell TensorFlow the cluster and this process's place in it, as TF_CONFIG would."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster_spec(job), task_type=TASKS[job.role], task_id=job.rank, rpc_layer="grpc"
    )


def serve(job: WorkerJob) -> None:
    """Do what a coordinator says, until the process is ended from outside."""
    if job.role == "worker":
        write_order(job)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=job.run.topology.threads,
        inter_op_parallelism_threads=max(MIN_INTER_OP_THREADS, job.run.topology.threads),
    )
    server = tf.distribute.Server(
        cluster_spec(job),
        job_name=TASKS[job.role],
        task_index=job.rank,
        protocol="grpc",
        config=config,
    )
    server.join()


#: How often a segment tells how far it is.
PROGRESS_REPORTS = 20


class ParameterServerCoordinator:
    """The process that hands out steps; the weights lie on the servers."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        tf.config.threading.set_inter_op_parallelism_threads(MIN_INTER_OP_THREADS)
        strategy = tf.distribute.ParameterServerStrategy(cluster_resolver(job))
        self.cluster = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self.model = build_model(setup)
            self.optimizer = Optimizer(setup, self.model)
            self.states = ServerRecurrentStates(
                setup.network.state_shapes(),
                setup.dtype,
                job.run.topology.workers,
                job.run.local_batch,
            )
        self.loss = FusedCrossEntropy(setup.loss_reduction)
        self.workers = job.run.topology.workers
        convert = input_converter(setup)
        dataset = self.cluster.create_per_worker_dataset(lambda: remote_dataset(job, convert))
        self.iterators = iter(dataset)
        self.compiled_step = tf.function(self._step, autograph=False)
        self.compiled_instrumented_step = tf.function(self._instrumented_step, autograph=False)

    def run(self, kind: str, steps: int, on_progress: Callable[[int], None]) -> list[RemoteStep]:
        """Hand out all steps at once; each worker takes the next when it is free."""
        step = self.compiled_instrumented_step if kind == "instrumented" else self.compiled_step
        total = steps * self.workers
        promises = [self.cluster.schedule(step, args=(self.iterators,)) for _ in range(total)]
        # Reading a result costs a message, so only some are awaited on the way.
        stride = max(1, total // PROGRESS_REPORTS)
        for number in range(stride - 1, total, stride):
            promises[number].get()
            on_progress((number + 1) // self.workers)
        self.cluster.join()
        on_progress(steps)
        return remote_steps(self.cluster.fetch(promises))

    def _step(self, iterator: Any) -> Any:
        """Make a step on the worker where this runs.

        Returns
        -------
        tensor
            Rank, loss, and the wall clock at the start and the end, float64.
        """
        start = tf.timestamp()
        with tf.control_dependencies([start]):
            rank, inputs, labels = next(iterator)
        before = self.states.read(rank)
        # A loop over time steps would fetch its weights from the server at each of them.
        values = [read_from_server(variable) for variable in self.model.variables] if before else []
        with tf.GradientTape() as tape:
            tape.watch(values)
            if before:
                scores, states, _ = self.model.stateless_score(values, inputs, before)
            else:
                scores, states = self.model.score(inputs, before, training=True)
            loss = self.loss(scores, labels)
        gradients = _to_dense(tape.gradient(loss, values or self.model.variables))
        self.states.assign(rank, states)
        return pack_report(rank, loss, [start, timestamp_after(self.optimizer.apply(gradients))])

    def _instrumented_step(self, iterator: Any) -> Any:
        """Make the same step, each pass after the end of the stage before.

        Returns
        -------
        tensor
            Rank, loss, and the wall clock at the start and after each of
            :data:`horizont.frameworks.tensorflow.distributed.STAGES`, float64.
        """
        times = [tf.timestamp()]
        with after_last_timestamp(times):
            rank, inputs, labels = next(iterator)
        times.append(timestamp_after([rank, inputs, labels]))
        with after_last_timestamp(times):
            values = [read_from_server(variable) for variable in self.model.variables]
            states = self.states.read(rank)
        times.append(timestamp_after([*values, *states]))
        with tf.GradientTape() as tape, after_last_timestamp(times):
            tape.watch(values)
            logits, states, tracked = self.model.stateless_score(values, inputs, states)
            loss = self.loss(logits, labels)
            self.model.assign_non_trainable(tracked)
        times.append(timestamp_after([loss]))
        with after_last_timestamp(times):
            gradients = _to_dense(tape.gradient(loss, values))
        times.append(timestamp_after(gradients))
        # As in a bare step each gradient leaves when it is there, before the last is.
        self.states.assign(rank, states)
        pushed = self.optimizer.apply(gradients)
        times.append(timestamp_after([times[-1], *pushed]))
        return pack_report(rank, loss, times)

    def weights(self) -> Weights:
        """Read the weights from the servers."""
        return self.model.weights()

    def running_statistics(self) -> Weights:
        """Read the tracked statistics from the servers."""
        return self.model.running_statistics()

    def close(self) -> None:
        """See that no step is under way; the passive processes are ended by their launcher."""
        self.cluster.join()


def _to_dense(gradients: list[Any]) -> list[Any]:
    """Fill up the gradient of a table of words, which comes as the rows that were looked up."""
    return [tf.convert_to_tensor(gradient) for gradient in gradients]
