"""TensorFlow's asynchronous parameter server: a coordinator hands out steps, workers take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horizont.frameworks.base import Recipe, RemoteStep, Weights
from horizont.frameworks.tensorflow.carried import ServedStates
from horizont.frameworks.tensorflow.distribute import WAITING_THREADS, resolver
from horizont.frameworks.tensorflow.input import converter
from horizont.frameworks.tensorflow.loss import Loss
from horizont.frameworks.tensorflow.model import build_model
from horizont.frameworks.tensorflow.optimizer import Rule
from horizont.frameworks.tensorflow.remote_input import remote_dataset
from horizont.frameworks.tensorflow.remote_times import fetched, remote_steps, report
from horizont.frameworks.tensorflow.stamps import after, time_after
from horizont.spec import ProcessJob

#: How often a segment tells how far it is.
REPORTS = 20


class ParameterServerCoordinator:
    """The process that hands out steps; the weights lie on the servers."""

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        tf.config.threading.set_inter_op_parallelism_threads(WAITING_THREADS)
        strategy = tf.distribute.ParameterServerStrategy(resolver(job))
        self.cluster = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self.model = build_model(recipe)
            self.rule = Rule(recipe, self.model)
            self.states = ServedStates(
                recipe.network.state_shapes(),
                recipe.dtype,
                job.run.topology.workers,
                job.run.local_batch,
            )
        self.loss = Loss(recipe.loss_reduction)
        self.workers = job.run.topology.workers
        convert = converter(recipe)
        dataset = self.cluster.create_per_worker_dataset(lambda: remote_dataset(job, convert))
        self.feeds = iter(dataset)
        self.bare_step = tf.function(self._step, autograph=False)
        self.timed_step = tf.function(self._timed_step, autograph=False)

    def run(self, kind: str, steps: int, done: Callable[[int], None]) -> list[RemoteStep]:
        """Hand out all steps at once; each worker takes the next when it is free."""
        step = self.timed_step if kind == "instrumented" else self.bare_step
        total = steps * self.workers
        promises = [self.cluster.schedule(step, args=(self.feeds,)) for _ in range(total)]
        # Reading a result costs a message, so only some are awaited on the way.
        stride = max(1, total // REPORTS)
        for number in range(stride - 1, total, stride):
            promises[number].get()
            done((number + 1) // self.workers)
        self.cluster.join()
        done(steps)
        return remote_steps(self.cluster.fetch(promises))

    def _step(self, feed: Any) -> Any:
        """Make a step on the worker where this runs.

        Returns
        -------
        tensor
            Rank, loss, and the wall clock at the start and the end, float64.
        """
        start = tf.timestamp()
        with tf.control_dependencies([start]):
            rank, inputs, labels = next(feed)
        before = self.states.read(rank)
        # A loop over time steps would fetch its weights from the server at each of them.
        values = [fetched(variable) for variable in self.model.variables] if before else []
        with tf.GradientTape() as tape:
            tape.watch(values)
            if before:
                scores, states, _ = self.model.replay(values, inputs, before)
            else:
                scores, states = self.model.score(inputs, before, training=True)
            loss = self.loss(scores, labels)
        gradients = _whole(tape.gradient(loss, values or self.model.variables))
        self.states.keep(rank, states)
        return report(rank, loss, [start, time_after(self.rule.apply(gradients))])

    def _timed_step(self, feed: Any) -> Any:
        """Make the same step, each pass after the end of the stage before.

        Returns
        -------
        tensor
            Rank, loss, and the wall clock at the start and after each of
            :data:`horizont.frameworks.tensorflow.remote_times.STAGES`, float64.
        """
        times = [tf.timestamp()]
        with after(times):
            rank, inputs, labels = next(feed)
        times.append(time_after([rank, inputs, labels]))
        with after(times):
            values = [fetched(variable) for variable in self.model.variables]
            states = self.states.read(rank)
        times.append(time_after([*values, *states]))
        with tf.GradientTape() as tape, after(times):
            tape.watch(values)
            logits, states, tracked = self.model.replay(values, inputs, states)
            loss = self.loss(logits, labels)
            self.model.track(tracked)
        times.append(time_after([loss]))
        with after(times):
            gradients = _whole(tape.gradient(loss, values))
        times.append(time_after(gradients))
        # As in a bare step each gradient leaves when it is there, before the last is.
        self.states.keep(rank, states)
        pushed = self.rule.apply(gradients)
        times.append(time_after([times[-1], *pushed]))
        return report(rank, loss, times)

    def weights(self) -> Weights:
        """Read the weights from the servers."""
        return self.model.weights()

    def statistics(self) -> Weights:
        """Read the tracked statistics from the servers."""
        return self.model.statistics()

    def close(self) -> None:
        """See that no step is under way; the passive processes are ended by their launcher."""
        self.cluster.join()


def _whole(gradients: list[Any]) -> list[Any]:
    """Fill up the gradient of a table of words, which comes as the rows that were looked up."""
    return [tf.convert_to_tensor(gradient) for gradient in gradients]
