"""ParameterServerStrategy: a coordinator, the workers that it controls, and the servers.

A worker that a coordinator controls reads its examples itself. Before it serves, it writes their
order to a file in its working directory. The coordinator sends the input pipeline as a graph, which
opens that file and the worker's copy of the data set: no example crosses the network.
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
from horizont.frameworks.base import Coordinator, RemoteStep, TrainingSetup, Weights
from horizont.frameworks.tensorflow.distributed import (
    MIN_INTER_OP_THREADS,
    TASKS,
    cluster_resolver,
    cluster_spec,
)
from horizont.frameworks.tensorflow.input import (
    Convert,
    fetcher,
    input_converter,
    limit_threads,
    window_fetcher,
)
from horizont.frameworks.tensorflow.layers import ServerRecurrentStates
from horizont.frameworks.tensorflow.model import Model, build_model
from horizont.frameworks.tensorflow.optimizer import Optimizer
from horizont.frameworks.tensorflow.train import after_last_timestamp, timestamp_after
from horizont.networks.layers import Embedding

#: A worker's rank, followed by the indices of its batches, int64; in its working directory.
ORDER_FILE = "order.int64"


def write_order(job: WorkerJob) -> None:
    """Write the order of the examples of this worker."""
    order = example_order(job.run, job.rank, read_description(job.data_folder))
    np.concatenate([[job.rank], *order]).astype(np.int64).tofile(ORDER_FILE)


def remote_dataset(job: WorkerJob, convert: Convert) -> Any:
    """Return the input pipeline of the worker on which it runs: rank, inputs and labels.

    A worker that is faster than the others runs more than its share of the steps; it then repeats
    its order.
    """
    if read_description(job.data_folder).kind == "text":
        tokens = _read_array(job.data_folder / "train_tokens.npy")
        fetch = window_fetcher(tokens, job.run.workload.time_steps)
    else:
        images = tf.transpose(_read_array(job.data_folder / "train_images.npy"), (0, 2, 3, 1))
        fetch = fetcher(images, _read_array(job.data_folder / "train_labels.npy"), convert)
    content = tf.io.decode_raw(tf.io.read_file(ORDER_FILE), tf.int64)
    order = tf.data.Dataset.from_tensor_slices(tf.reshape(content[1:], (-1, job.run.local_batch)))
    return limit_threads(order.map(lambda indices: (content[0], *fetch(indices))).repeat())


def _read_array(path: Path) -> Any:
    """Read a NumPy file with TensorFlow's operators; its header is read from the local copy."""
    local = np.load(path, mmap_mode="r")
    content = tf.strings.substr(tf.io.read_file(str(path)), local.offset, local.nbytes)
    return tf.reshape(tf.io.decode_raw(content, local.dtype), local.shape)


#: The phases that an instrumented step runs one after the other.
INSTRUMENTED_STAGES = ("load", "communication", "forward", "backward", "communication")


def read_from_server(variable: Any) -> Any:
    """Return a copy of a variable on the device where this is built."""
    return tf.identity(variable.read_value())


def pack_report(rank: Any, loss: Any, times: Sequence[Any]) -> Any:
    """Return rank, loss and times of a step as one tensor, float64."""
    return tf.stack([tf.cast(value, tf.float64) for value in (rank, loss, *times)])


def remote_steps(reports: Sequence[Any]) -> list[RemoteStep]:
    """Convert the reports of a segment to steps, in the order in which they began.

    A worker's step begins at the end of its previous one, as in a worker with its own loop: the
    delay until the coordinator schedules the next step is part of the step, outside its phases. The
    first step of a segment begins when the worker starts it.

    A report is rank, loss, and the times in seconds: start and end, or start and the end of each
    stage.
    """
    steps = []
    previous_end_s: dict[int, float] = {}
    for rank, loss, *times in sorted(reports, key=lambda report: float(report[2])):
        worker = int(rank)
        steps.append(
            RemoteStep(
                worker=worker,
                start_unix_s=previous_end_s.get(worker, float(times[0])),
                end_unix_s=float(times[-1]),
                phases_s=_phases(times) if len(times) > 2 else {},
                loss=float(loss),
            )
        )
        previous_end_s[worker] = float(times[-1])
    return steps


def _phases(times: Sequence[float]) -> dict[str, float]:
    """Sum the durations of the stages by phase."""
    phases: dict[str, float] = {}
    for stage, start, end in zip(INSTRUMENTED_STAGES, times[:-1], times[1:], strict=True):
        phases[stage] = phases.get(stage, 0.0) + float(end - start)
    return phases


def serve(job: WorkerJob) -> None:
    """Run what a coordinator schedules, until the launcher terminates the process."""
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


#: Progress reports per segment.
PROGRESS_REPORTS = 20


class ParameterServerCoordinator(Coordinator):
    """The coordinator of ParameterServerStrategy; the servers hold the weights."""

    def __init__(self, setup: TrainingSetup, job: WorkerJob) -> None:
        tf.config.threading.set_inter_op_parallelism_threads(MIN_INTER_OP_THREADS)
        strategy = tf.distribute.ParameterServerStrategy(cluster_resolver(job))
        self.cluster = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self.model = build_model(setup)
            self.optimizer = Optimizer(self.model)
            self.states = ServerRecurrentStates(
                setup.network.state_shapes(),
                setup.dtype,
                job.run.topology.workers,
                job.run.local_batch,
            )
        self.table_numbers = _sparse_tables(self.model)
        self.workers = job.run.topology.workers
        convert = input_converter(setup)
        dataset = self.cluster.create_per_worker_dataset(lambda: remote_dataset(job, convert))
        self.iterators = iter(dataset)
        self.compiled_step = tf.function(self._step, autograph=False)
        self.compiled_instrumented_step = tf.function(self._instrumented_step, autograph=False)

    def run(self, kind: str, steps: int, on_progress: Callable[[int], None]) -> list[RemoteStep]:
        """Schedule all steps at once; a worker takes the next one when it has finished its last."""
        step = self.compiled_instrumented_step if kind == "instrumented" else self.compiled_step
        total = steps * self.workers
        pending = [self.cluster.schedule(step, args=(self.iterators,)) for _ in range(total)]
        # Fetching a result takes a message, so only some are awaited before the end.
        stride = max(1, total // PROGRESS_REPORTS)
        for number in range(stride - 1, total, stride):
            pending[number].get()
            on_progress((number + 1) // self.workers)
        self.cluster.join()
        on_progress(steps)
        return remote_steps(self.cluster.fetch(pending))

    def _step(self, iterator: Any) -> Any:
        """Run a step on the worker that executes it.

        Return rank, loss, and the wall clock at start and end as one tensor, float64.
        """
        start = tf.timestamp()
        with tf.control_dependencies([start]):
            rank, inputs, labels = next(iterator)
        states = self.states.read(rank)
        # A loop over time steps would fetch its weights from the server at each of them.
        values = self._read_values(inputs) if states else []
        with tf.GradientTape() as tape:
            tape.watch(values)
            if states:
                scores, states, _ = self.model.stateless_score(values, inputs, states)
            else:
                scores, states = self.model.score(inputs, states, training=True)
            loss = self.model.loss(scores, labels)
        gradients = self._sent_gradients(tape.gradient(loss, values or self.model.variables))
        self.states.assign(rank, states)
        return pack_report(rank, loss, [start, timestamp_after(self.optimizer.apply(gradients))])

    def _instrumented_step(self, iterator: Any) -> Any:
        """Run the same step, each pass after the end of the previous stage.

        Return rank, loss, and the wall clock at the start and at the end of each of
        `INSTRUMENTED_STAGES`.
        """
        times = [tf.timestamp()]
        with after_last_timestamp(times):
            rank, inputs, labels = next(iterator)
        times.append(timestamp_after([rank, inputs, labels]))
        with after_last_timestamp(times):
            values = self._read_values(inputs)
            states = self.states.read(rank)
        times.append(timestamp_after([*values, *states]))
        with tf.GradientTape() as tape, after_last_timestamp(times):
            tape.watch(values)
            logits, states, statistics = self.model.stateless_score(values, inputs, states)
            loss = self.model.loss(logits, labels)
            non_trainable = self.model.network.non_trainable_variables
            for variable, value in zip(non_trainable, statistics, strict=True):
                variable.value.assign(value)
        times.append(timestamp_after([loss]))
        with after_last_timestamp(times):
            gradients = self._sent_gradients(tape.gradient(loss, values))
        times.append(timestamp_after(gradients))
        # As in an uninstrumented step, each gradient is sent before the last one is available.
        self.states.assign(rank, states)
        pushed = self.optimizer.apply(gradients)
        times.append(timestamp_after([times[-1], *pushed]))
        return pack_report(rank, loss, times)

    def _read_values(self, inputs: Any) -> list[Any]:
        """Read the weights from the servers; of a sparse table the rows that are looked up."""
        return [
            _read_rows(variable, inputs)
            if number in self.table_numbers
            else read_from_server(variable)
            for number, variable in enumerate(self.model.variables)
        ]

    def _sent_gradients(self, gradients: list[Any]) -> list[Any]:
        """Return the gradients as they are sent: dense, or the rows of a sparse table."""
        return [
            _sum_duplicate_rows(gradient)
            if number in self.table_numbers
            else tf.convert_to_tensor(gradient)
            for number, gradient in enumerate(gradients)
        ]

    def weights(self) -> Weights:
        """Return the weights of the servers."""
        return self.model.weights()

    def running_statistics(self) -> Weights:
        """Return the running statistics of the servers."""
        return self.model.running_statistics()

    def close(self) -> None:
        """Wait for pending steps; the launcher terminates workers and servers."""
        self.cluster.join()


def _sparse_tables(model: Model) -> set[int]:
    """Return which weights are tables of which only the rows that are looked up cross the network.

    It is so with plain SGD, under which the other rows stay as they are. Weight decay and the
    slots of other rules change all rows.
    """
    config, network = model.setup.optimizer, model.setup.network
    if config.slots or config.weight_decay:
        return set()
    tables = {layer.name for layer in network.layers if isinstance(layer, Embedding)}
    names = (layout.name.split(".")[0] for layout in model.layouts)
    return {number for number, name in enumerate(names) if name in tables}


def _read_rows(variable: Any, words: Any) -> Any:
    """Return a table with the rows of some words, read from its server, and zeros elsewhere."""
    words, _ = tf.unique(tf.reshape(words, [-1]))
    return tf.scatter_nd(words[:, None], tf.gather(variable, words), variable.shape)


def _sum_duplicate_rows(slices: Any) -> Any:
    """Return a sparse gradient in which each row occurs once, as its norm needs it."""
    words, positions = tf.unique(slices.indices)
    rows = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(words))
    return tf.IndexedSlices(rows, words, slices.dense_shape)
