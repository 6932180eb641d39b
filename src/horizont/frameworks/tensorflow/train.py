"""Training with TensorFlow in a single process, with timestamps inside the graph.

An operation of a graph runs as soon as its inputs are available; only control dependencies order
it otherwise. The clock is the wall clock of the process that runs the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic, time
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks import base
from horizont.frameworks.tensorflow import model
from horizont.frameworks.tensorflow.input import Batch, batches, input_converter
from horizont.frameworks.tensorflow.layers import RecurrentState
from horizont.frameworks.tensorflow.optimizer import Optimizer


def after_last_timestamp(times: Sequence[Any]) -> AbstractContextManager[Any]:
    """Make everything that is built inside start after the last timestamp."""
    context: AbstractContextManager[Any] = tf.control_dependencies([times[-1]])
    return context


def timestamp_after(tensors: Sequence[Any]) -> Any:
    """Return a timestamp that is taken when all tensors are available."""
    with tf.control_dependencies(list(tensors)):
        return tf.timestamp()


class LocalTrainer(base.Trainer):
    """A network with its loss and update rule, compiled in two ways.

    A step is one compiled function. An instrumented step is another one, which takes timestamps
    between its stages; it is a single call, too, and takes as long. On a CPU such a call returns
    when everything in it has been computed.

    Attributes
    ----------
    stages
        The phases that an instrumented step runs one after the other.
    """

    stages: tuple[str, ...] = ("forward", "backward", "update")

    def __init__(self, setup: base.TrainingSetup) -> None:
        self.model = model.build_model(setup)
        self.variables = self.model.variables
        self.states = RecurrentState(setup.network.state_shapes(), setup.dtype)
        self.convert = input_converter(setup)
        self.optimizer = Optimizer(self.model)
        self._compile(setup)

    def _compile(self, setup: base.TrainingSetup) -> None:
        """Wrap the steps in compiled functions for any batch size.

        No Python code here branches on a tensor, so autograph has nothing to rewrite. XLA compiles
        a function again for each batch size that it is called with. XLA has no clock: the
        instrumented step takes its timestamps between parts that XLA compiles separately.
        """
        self.jit = setup.variant == "xla"
        self.eager = setup.variant == "eager"
        # The first input and output; recurrent states follow.
        first, scores = self.model.network.inputs[0], self.model.network.outputs[0]
        inputs = tf.TensorSpec(first.shape, first.dtype)
        self.batch_spec = [inputs, tf.TensorSpec(scores.shape[:-1], tf.int64)]
        gradients = [tf.TensorSpec(variable.shape, setup.dtype) for variable in self.variables]
        self.compiled_step = self._function(self.train, self.batch_spec, self.jit)
        self.forward_function, self.update_function = self.forward, self.update
        if self.jit:
            self.forward_function = self._function(self.forward, self.batch_spec, True)
            self.update_function = self._function(self.update, [gradients], True)
        self.compiled_instrumented_step = self._function(
            self.train_with_timestamps, self.batch_spec, False
        )
        self.compiled_differentiate = self._function(self.differentiate, self.batch_spec, self.jit)
        self.compiled_scores = tf.function(self.score, autograph=False, input_signature=[inputs])

    def _function(self, body: Callable[..., Any], signature: Sequence[Any], jit: bool) -> Any:
        """Wrap a part of a training step for the variant; the eager one is not wrapped."""
        if self.eager:
            return body
        return tf.function(
            body, autograph=False, input_signature=signature, jit_compile=jit or None
        )

    def step_graph(self) -> Any:
        """Return the traced graph of an uninstrumented step; None for the eager variant."""
        return None if self.eager else self.compiled_step.get_concrete_function().graph

    def score(self, inputs: Any, training: bool = False) -> Any:
        """Compute scores; a recurrent network continues from the previous batch."""
        initial = self.states.read(tf.shape(inputs)[0])
        scores, final = self.model.score(inputs, initial, training=training)
        self.states.assign(final)
        return scores

    def forward(self, inputs: Any, labels: Any) -> Any:
        """Compute the loss."""
        scores = self.score(inputs, training=True)
        with tf.name_scope(model.LOSS_SCOPE):
            return self.model.loss(scores, labels)

    def differentiate(self, inputs: Any, labels: Any) -> tuple[Any, Any, list[Any]]:
        """Compute scores, loss and gradients."""
        with tf.GradientTape() as tape:
            logits = self.score(inputs, training=True)
            with tf.name_scope(model.LOSS_SCOPE):
                loss = self.model.loss(logits, labels)
        return logits, loss, self._apply_gradient_factors(tape.gradient(loss, self.variables))

    def _apply_gradient_factors(self, gradients: list[Any]) -> list[Any]:
        """Multiply the gradients that have a factor.

        The gradient of an embedding table is sparse, the rows that were looked up. It is converted
        to a dense one, as the update rules of the other frameworks receive it.
        """
        with tf.name_scope(model.GRADIENTS_SCOPE):
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        factors = self.model.setup.gradient_factors
        if not factors:
            return gradients
        named = zip(self.model.layouts, gradients, strict=True)
        return [gradient * factors.get(layout.name, 1.0) for layout, gradient in named]

    def update(self, gradients: Sequence[Any]) -> Any:
        """Apply the gradients; return a tensor that is available when that is done."""
        with (
            tf.name_scope(model.UPDATE_SCOPE),
            tf.control_dependencies(self.optimizer.apply(gradients)),
        ):
            return tf.constant(True)

    def train(self, inputs: Any, labels: Any) -> Any:
        """Run one training step; the body of the compiled step."""
        _, loss, gradients = self.differentiate(inputs, labels)
        self.update(gradients)
        return loss

    def train_with_timestamps(self, inputs: Any, labels: Any) -> tuple[Any, Any]:
        """Run one training step, each stage after the end of the previous one.

        Return the loss, and the wall clock at the end of each stage: (stages,) seconds.
        """
        with tf.GradientTape() as tape:
            loss = self.forward_function(inputs, labels)
        times = [timestamp_after([loss])]
        with after_last_timestamp(times):
            gradients = self._apply_gradient_factors(tape.gradient(loss, self.variables))
        times.append(timestamp_after(gradients))
        gradients = self.all_reduce_with_timestamp(gradients, times)
        with after_last_timestamp(times):
            updated = self.update_function(gradients)
        times.append(timestamp_after([updated]))
        return loss, tf.stack(times)

    def all_reduce_with_timestamp(self, gradients: list[Any], times: list[Any]) -> list[Any]:
        """Return the gradients: there are no other workers."""
        del times
        return gradients

    def compile_instrumented_step(self, batch_size: int) -> None:
        """Compile the instrumented step by running it, and restore everything it changed."""
        changed = [*self.variables, *self.optimizer.variables]
        values = [variable.numpy() for variable in changed]
        statistics = self.model.running_statistics()
        rows = batch_size if self.jit else 1
        batch = [tf.zeros((rows, *spec.shape[1:]), spec.dtype) for spec in self.batch_spec]
        self.compiled_instrumented_step(*batch)
        for variable, value in zip(changed, values, strict=True):
            variable.assign(value)
        self.model.set_running_statistics(statistics)
        self.reset_recurrent_state()

    def batches(self, data: base.TrainingData) -> Iterator[Batch]:
        """Start the input pipeline."""
        return batches(data, self.convert)

    def step(self, batch: Batch) -> Any:
        """Run one training step."""
        return self.compiled_step(*batch)

    def instrumented_step(self, batch: Batch, mark: base.PhaseMark) -> Any:
        """Run one training step and mark its stages by the timestamps of the graph."""
        loss, ends = self.compiled_instrumented_step(*batch)
        to_monotonic_s = monotonic() - time()
        for stage, end_s in zip(self.stages, ends.numpy(), strict=True):
            mark(stage, float(end_s) + to_monotonic_s)
        return loss

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return scores of images or texts."""
        native = self.convert(base.to_channels_last(inputs))
        scores: NDArray[Any] = self.compiled_scores(native).numpy()
        return scores

    def forward_backward(self, batch: Batch) -> base.ForwardBackward:
        """Return logits, loss and gradients; restore statistics and recurrent state.

        It runs operator by operator, since compiling takes longer than a single call. Only the XLA
        variant is compiled, for its numbers are those of XLA.
        """
        statistics, states = self.running_statistics(), list(self.recurrent_state().values())
        differentiate = self.compiled_differentiate if self.jit else self.differentiate
        logits, loss, gradients = differentiate(*batch)
        self.model.set_running_statistics(statistics)
        self.states.assign(states)
        named = self.model.to_named_weights(gradients)
        return base.ForwardBackward(logits.numpy(), float(loss), named)

    def weights(self) -> base.Weights:
        """Return the weights."""
        return self.model.weights()

    def running_statistics(self) -> base.Weights:
        """Return the running statistics."""
        return self.model.running_statistics()

    def optimizer_state(self) -> base.Weights:
        """Return the state of the optimizer."""
        return self.optimizer.state()

    def recurrent_state(self) -> base.Weights:
        """Return the state of the recurrent layers."""
        return self.states.to_named_arrays()

    def set_recurrent_state(self, states: base.Weights) -> None:
        """Set the state of the recurrent layers."""
        self.states.assign([states[name] for name in self.states.shapes])

    def reset_recurrent_state(self) -> None:
        """Zero the state of the recurrent layers."""
        self.states.reset()

    def set_dropout_masks(self, masks: base.Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            self.model.external_dropouts[name].set_mask(mask)
