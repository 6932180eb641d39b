"""Reading the clock inside a graph.

An operation runs when its inputs are there, in whatever order; only control dependencies say
what comes before what. The clock is the wall clock of the process that runs the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic, time
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import (
    ForwardBackward,
    ImagesOnDisk,
    InMemoryImages,
    PhaseMark,
    TextWindows,
    TrainingSetup,
    Weights,
)
from horizont.frameworks.tensorflow import input
from horizont.frameworks.tensorflow import input as pipeline
from horizont.frameworks.tensorflow.layers import RecurrentState
from horizont.frameworks.tensorflow.model import (
    GRADIENTS_SCOPE,
    LOSS_SCOPE,
    UPDATE_SCOPE,
    FusedCrossEntropy,
    build_model,
)
from horizont.frameworks.tensorflow.optimizer import Optimizer


def after_last_timestamp(times: Sequence[Any]) -> AbstractContextManager[Any]:
    """Let nothing that is built inside start before the last of the times was read."""
    context: AbstractContextManager[Any] = tf.control_dependencies([times[-1]])
    return context


def timestamp_after(tensors: Sequence[Any]) -> Any:
    """Read the clock once all of the tensors are there."""
    with tf.control_dependencies(list(tensors)):
        return tf.timestamp()


class LocalTrainer:
    """A network, its loss and its update rule, compiled in two ways.

    A bare step is one compiled function. An instrumented step is another, which reads the clock
    between its stages; so it is a call of one function, too, and lasts as long. On a processor
    such a call returns when everything in it has been computed.

    Attributes
    ----------
    stages
        What an instrumented step does one after the other.
    """

    stages: tuple[str, ...] = ("forward", "backward", "update")

    def __init__(self, setup: TrainingSetup) -> None:
        self.model = build_model(setup)
        self.variables = self.model.variables
        self.loss = FusedCrossEntropy(setup.loss_reduction)
        self.gradient_factors = setup.gradient_factors
        self.states = RecurrentState(setup.network.state_shapes(), setup.dtype)
        self.convert = pipeline.input_converter(setup)
        self.optimizer = Optimizer(setup, self.model)
        self._compile(setup)

    def _compile(self, setup: TrainingSetup) -> None:
        """Wrap steps in compiled functions that fit any size of batch.

        No Python here branches on a tensor, so none has to be rewritten first (autograph). XLA
        compiles a function once more for each size of batch, when it is called with it. It has no
        clock: the instrumented step calls the parts that it has compiled.
        """
        self.jit = setup.variant == "xla"
        self.eager = setup.variant == "eager"
        inputs = tf.TensorSpec(*_input_spec(self.model.network))
        self.labels_shape = setup.network.time_steps
        batch = [inputs, tf.TensorSpec((None, *self.labels_shape), tf.int64)]
        gradients = [tf.TensorSpec(variable.shape, setup.dtype) for variable in self.variables]
        self.compiled_step = self._function(self.train, batch, self.jit)
        self.forward_function = (
            self._function(self.forward, batch, True) if self.jit else self.forward
        )
        self.update_function = (
            self._function(self.update, [gradients], True) if self.jit else self.update
        )
        self.compiled_instrumented_step = self._function(self.train_with_timestamps, batch, False)
        self.compiled_differentiate = self._function(self.differentiate, batch, self.jit)
        self.compiled_scores = tf.function(self.score, autograph=False, input_signature=[inputs])

    def _function(self, body: Callable[..., Any], signature: Sequence[Any], jit: bool) -> Any:
        """Wrap a part of a training step as the recipe builds it; eager is not to wrap it."""
        if self.eager:
            return body
        return tf.function(
            body, autograph=False, input_signature=signature, jit_compile=jit or None
        )

    def step_graph(self) -> Any:
        """Tell the graph of a bare step, as it was traced; None if there is none to look into."""
        return None if self.eager else self.compiled_step.get_concrete_function().graph

    def score(self, inputs: Any, training: bool = False) -> Any:
        """Compute scores; a recurrent network goes on from the batch before."""
        before = self.states.read(tf.shape(inputs)[0])
        scores, after = self.model.score(inputs, before, training=training)
        self.states.assign(after)
        return scores

    def forward(self, inputs: Any, labels: Any) -> Any:
        """Compute the loss."""
        scores = self.score(inputs, training=True)
        with tf.name_scope(LOSS_SCOPE):
            return self.loss(scores, labels)

    def differentiate(self, inputs: Any, labels: Any) -> tuple[Any, Any, list[Any]]:
        """Compute scores, loss and gradients."""
        with tf.GradientTape() as tape:
            logits = self.score(inputs, training=True)
            with tf.name_scope(LOSS_SCOPE):
                loss = self.loss(logits, labels)
        return logits, loss, self._apply_gradient_factors(tape.gradient(loss, self.variables))

    def _apply_gradient_factors(self, gradients: list[Any]) -> list[Any]:
        """Multiply the gradients that have a factor.

        That of a table of words comes as the rows that were looked up; the update rules of the
        other frameworks see the whole table, so it is filled up here, too.
        """
        with tf.name_scope(GRADIENTS_SCOPE):
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if not self.gradient_factors:
            return gradients
        named = zip(self.model.layouts, gradients, strict=True)
        return [gradient * self.gradient_factors.get(slot.name, 1.0) for slot, gradient in named]

    def update(self, gradients: Sequence[Any]) -> Any:
        """Change the weights; gives a tensor that is there as soon as that is done."""
        with tf.name_scope(UPDATE_SCOPE), tf.control_dependencies(self.optimizer.apply(gradients)):
            return tf.constant(True)

    def train(self, inputs: Any, labels: Any) -> Any:
        """Make one training step; the body of the bare step."""
        _, loss, gradients = self.differentiate(inputs, labels)
        self.update(gradients)
        return loss

    def train_with_timestamps(self, inputs: Any, labels: Any) -> tuple[Any, Any]:
        """Make one training step, each stage after the end of the one before.

        Returns
        -------
        tuple
            The loss, and the wall clock after each stage: (stages,) seconds.
        """
        with tf.GradientTape() as tape:
            loss = self.forward_function(inputs, labels)
        times = [timestamp_after([loss])]
        with after_last_timestamp(times):
            gradients = self._apply_gradient_factors(tape.gradient(loss, self.variables))
        times.append(timestamp_after(gradients))
        gradients = self.all_reduce_with_timestamp(gradients, times)
        with after_last_timestamp(times):
            changed = self.update_function(gradients)
        times.append(timestamp_after([changed]))
        return loss, tf.stack(times)

    def all_reduce_with_timestamp(self, gradients: list[Any], times: list[Any]) -> list[Any]:
        """Do nothing: nobody else is there."""
        del times
        return gradients

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Compile the timed step; nothing is learned from it."""
        touched = [*self.variables, *self.optimizer.variables]
        before = [variable.numpy() for variable in touched]
        tracked = self.model.running_statistics()
        shape, dtype = _input_spec(self.model.network)
        rows = batch_size if self.jit else 1
        inputs, labels = (rows, *shape[1:]), (rows, *self.labels_shape)
        self.compiled_instrumented_step(tf.zeros(inputs, dtype), tf.zeros(labels, tf.int64))
        for variable, value in zip(touched, before, strict=True):
            variable.assign(value)
        self.model.set_running_statistics(tracked)
        self.reset_recurrent_state()

    def batches(
        self, data: InMemoryImages | TextWindows | ImagesOnDisk
    ) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        if isinstance(data, ImagesOnDisk):
            return input.file_batches(data, self.convert)
        return pipeline.memory_batches(data, self.convert)

    def step(self, batch: pipeline.Batch) -> Any:
        """Make one training step."""
        return self.compiled_step(*batch)

    def instrumented_step(self, batch: pipeline.Batch, mark: PhaseMark) -> Any:
        """Make one training step, and book its stages by the clock of the graph."""
        loss, ends = self.compiled_instrumented_step(*batch)
        to_monotonic_s = monotonic() - time()
        for stage, end_s in zip(self.stages, ends.numpy(), strict=True):
            mark(stage, float(end_s) + to_monotonic_s)
        return loss

    def synchronize(self, loss: Any) -> None:
        """Return at once: the step was over when it returned."""

    def loss_value(self, loss: Any) -> float:
        """Read a loss."""
        return float(loss)

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Score images or texts."""
        native = self.convert(pipeline.to_native_layout(inputs))
        scores: NDArray[Any] = self.compiled_scores(native).numpy()
        return scores

    def forward_backward(self, batch: pipeline.Batch) -> ForwardBackward:
        """Tell logits, loss and gradients without learning.

        Operator by operator: to compile what is asked for once takes longer than to do it. What
        XLA makes of it must be asked of XLA.
        """
        before, states = self.model.running_statistics(), self.states.to_numpy()
        differentiate = self.compiled_differentiate if self.jit else self.differentiate
        logits, loss, gradients = differentiate(*batch)
        self.model.set_running_statistics(before)
        self.states.assign(states)
        named = self.model.to_named_weights([gradient.numpy() for gradient in gradients])
        return ForwardBackward(logits.numpy(), float(loss), named)

    def weights(self) -> Weights:
        """Read the weights."""
        return self.model.weights()

    def running_statistics(self) -> Weights:
        """Read the tracked statistics."""
        return self.model.running_statistics()

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps."""
        return self.optimizer.state()

    def recurrent_state(self) -> Weights:
        """Read the state of the recurrent layers."""
        return self.states.to_named_arrays()

    def reset_recurrent_state(self) -> None:
        """Let the recurrent layers begin with zeros."""
        self.states.reset()

    def set_dropout_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            self.model.external_dropouts[name].set_mask(mask)

    def communication_stats(self) -> None:
        """Tell nothing: TensorFlow shows no clock of an exchange inside a step."""

    def close(self) -> None:
        """Do nothing: nobody else is there."""


def _input_spec(network: Any) -> tuple[tuple[int | None, ...], str]:
    """Tell shape and type of what a Keras model takes, without the states."""
    first = network.inputs[0]
    return tuple(first.shape), first.dtype
