"""TensorFlow's asynchronous parameter server: a coordinator hands out steps, workers take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from horizont.frameworks.base import Recipe, RemoteStep, Weights
from horizont.frameworks.tensorflow.distribute import WAITING_THREADS, resolver
from horizont.frameworks.tensorflow.input import Normaliser
from horizont.frameworks.tensorflow.loss import Loss
from horizont.frameworks.tensorflow.model import build_model
from horizont.frameworks.tensorflow.optimizer import Rule
from horizont.frameworks.tensorflow.remote_input import remote_dataset
from horizont.frameworks.tensorflow.remote_times import (
    after,
    fetched,
    remote_steps,
    report,
    time_after,
)
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
        self.loss = Loss(recipe.loss_reduction)
        self.workers = job.run.topology.workers
        normalise = Normaliser(recipe.normalisation, recipe.dtype)
        dataset = self.cluster.create_per_worker_dataset(lambda: remote_dataset(job, normalise))
        self.feeds = iter(dataset)
        self.bare_step = tf.function(self._step)
        self.timed_step = tf.function(self._timed_step)

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
            rank, images, labels = next(feed)
        with tf.GradientTape() as tape:
            loss = self.loss(self.model.network(images, training=True), labels)
        gradients = tape.gradient(loss, self.model.variables)
        return report(rank, loss, [start, time_after(self.rule.apply(gradients))])

    def _timed_step(self, feed: Any) -> Any:
        """Make the same step, each stage after the end of the one before.

        Returns
        -------
        tensor
            Rank, loss, and the wall clock at the start and after each of
            :data:`horizont.frameworks.tensorflow.remote_times.STAGES`, float64.
        """
        times = [tf.timestamp()]
        with after(times):
            rank, images, labels = next(feed)
        times.append(time_after([rank, images, labels]))
        with after(times):
            values = [fetched(variable) for variable in self.model.variables]
        times.append(time_after(values))
        with tf.GradientTape() as tape, after(times):
            tape.watch(values)
            logits, tracked = self.model.replay(values, images)
            loss = self.loss(logits, labels)
            self.model.track(tracked)
        times.append(time_after([loss]))
        with after(times):
            gradients = tape.gradient(loss, values)
        times.append(time_after(gradients))
        with after(times):
            pushed = self.rule.apply(gradients)
        times.append(time_after(pushed))
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
