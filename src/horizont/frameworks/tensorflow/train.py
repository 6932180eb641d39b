"""Training with TensorFlow in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic, time
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import Examples, Mark, OnDisk, Probe, Recipe, Weights, Windows
from horizont.frameworks.tensorflow import input as pipeline
from horizont.frameworks.tensorflow import readers
from horizont.frameworks.tensorflow.carried import Carried
from horizont.frameworks.tensorflow.loss import Loss
from horizont.frameworks.tensorflow.model import build_model
from horizont.frameworks.tensorflow.optimizer import Rule
from horizont.frameworks.tensorflow.scopes import GRADIENTS, LOSS, UPDATE
from horizont.frameworks.tensorflow.stamps import after, time_after


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

    def __init__(self, recipe: Recipe) -> None:
        self.model = build_model(recipe)
        self.variables = self.model.variables
        self.loss = Loss(recipe.loss_reduction)
        self.factors = recipe.gradient_factors
        self.carried_states = Carried(recipe.network.state_shapes(), recipe.dtype)
        self.convert = pipeline.converter(recipe)
        self.rule = Rule(recipe, self.model)
        self._compile(recipe)

    def _compile(self, recipe: Recipe) -> None:
        """Wrap steps in compiled functions that fit any size of batch.

        No Python here branches on a tensor, so none has to be rewritten first (autograph). XLA
        compiles a function once more for each size of batch, when it is called with it. It has no
        clock: the instrumented step calls the parts that it has compiled.
        """
        self.jit = recipe.build == "xla"
        self.eager = recipe.build == "eager"
        inputs = tf.TensorSpec(*_like_input(self.model.network))
        self.labels_shape = recipe.network.time_steps
        batch = [inputs, tf.TensorSpec((None, *self.labels_shape), tf.int64)]
        gradients = [tf.TensorSpec(variable.shape, recipe.dtype) for variable in self.variables]
        self.compiled_step = self._function(self.train, batch, self.jit)
        self.forward_part = self._function(self.forward, batch, True) if self.jit else self.forward
        self.update_part = (
            self._function(self.update, [gradients], True) if self.jit else self.update
        )
        self.compiled_timed = self._function(self.timed, batch, False)
        self.compiled_probe = self._function(self.differentiate, batch, self.jit)
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
        before = self.carried_states.read(tf.shape(inputs)[0])
        scores, after = self.model.score(inputs, before, training=training)
        self.carried_states.keep(after)
        return scores

    def forward(self, inputs: Any, labels: Any) -> Any:
        """Compute the loss."""
        scores = self.score(inputs, training=True)
        with tf.name_scope(LOSS):
            return self.loss(scores, labels)

    def differentiate(self, inputs: Any, labels: Any) -> tuple[Any, Any, list[Any]]:
        """Compute scores, loss and gradients."""
        with tf.GradientTape() as tape:
            logits = self.score(inputs, training=True)
            with tf.name_scope(LOSS):
                loss = self.loss(logits, labels)
        return logits, loss, self._scaled(tape.gradient(loss, self.variables))

    def _scaled(self, gradients: list[Any]) -> list[Any]:
        """Multiply the gradients that have a factor.

        That of a table of words comes as the rows that were looked up; the update rules of the
        other frameworks see the whole table, so it is filled up here, too.
        """
        with tf.name_scope(GRADIENTS):
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if not self.factors:
            return gradients
        named = zip(self.model.slots, gradients, strict=True)
        return [gradient * self.factors.get(slot.name, 1.0) for slot, gradient in named]

    def update(self, gradients: Sequence[Any]) -> Any:
        """Change the weights; gives a tensor that is there as soon as that is done."""
        with tf.name_scope(UPDATE), tf.control_dependencies(self.rule.apply(gradients)):
            return tf.constant(True)

    def train(self, inputs: Any, labels: Any) -> Any:
        """Make one training step; the body of the bare step."""
        _, loss, gradients = self.differentiate(inputs, labels)
        self.update(gradients)
        return loss

    def timed(self, inputs: Any, labels: Any) -> tuple[Any, Any]:
        """Make one training step, each stage after the end of the one before.

        Returns
        -------
        tuple
            The loss, and the wall clock after each stage: (stages,) seconds.
        """
        with tf.GradientTape() as tape:
            loss = self.forward_part(inputs, labels)
        times = [time_after([loss])]
        with after(times):
            gradients = self._scaled(tape.gradient(loss, self.variables))
        times.append(time_after(gradients))
        gradients = self.exchange_timed(gradients, times)
        with after(times):
            changed = self.update_part(gradients)
        times.append(time_after([changed]))
        return loss, tf.stack(times)

    def exchange_timed(self, gradients: list[Any], times: list[Any]) -> list[Any]:
        """Do nothing: nobody else is there."""
        del times
        return gradients

    def rehearse(self, examples: int) -> None:
        """Compile the timed step; nothing is learned from it."""
        touched = [*self.variables, *self.rule.variables]
        before = [variable.numpy() for variable in touched]
        tracked = self.model.statistics()
        shape, dtype = _like_input(self.model.network)
        rows = examples if self.jit else 1
        inputs, labels = (rows, *shape[1:]), (rows, *self.labels_shape)
        self.compiled_timed(tf.zeros(inputs, dtype), tf.zeros(labels, tf.int64))
        for variable, value in zip(touched, before, strict=True):
            variable.assign(value)
        self.model.put_statistics(tracked)
        self.forget()

    def batches(self, examples: Examples | Windows | OnDisk) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        if isinstance(examples, OnDisk):
            return readers.batches(examples, self.convert)
        return pipeline.batches(examples, self.convert)

    def step(self, batch: pipeline.Batch) -> Any:
        """Make one training step."""
        return self.compiled_step(*batch)

    def timed_step(self, batch: pipeline.Batch, mark: Mark) -> Any:
        """Make one training step, and book its stages by the clock of the graph."""
        loss, ends = self.compiled_timed(*batch)
        to_monotonic_s = monotonic() - time()
        for stage, end_s in zip(self.stages, ends.numpy(), strict=True):
            mark(stage, float(end_s) + to_monotonic_s)
        return loss

    def settle(self, loss: Any) -> None:
        """Return at once: the step was over when it returned."""

    def loss_value(self, loss: Any) -> float:
        """Read a loss."""
        return float(loss)

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Score images or texts."""
        native = self.convert(pipeline.native(inputs))
        scores: NDArray[Any] = self.compiled_scores(native).numpy()
        return scores

    def probe(self, batch: pipeline.Batch) -> Probe:
        """Tell logits, loss and gradients without learning.

        Operator by operator: to compile what is asked for once takes longer than to do it. What
        XLA makes of it must be asked of XLA.
        """
        before, states = self.model.statistics(), self.carried_states.copies()
        differentiate = self.compiled_probe if self.jit else self.differentiate
        logits, loss, gradients = differentiate(*batch)
        self.model.put_statistics(before)
        self.carried_states.keep(states)
        named = self.model.named([gradient.numpy() for gradient in gradients])
        return Probe(logits.numpy(), float(loss), named)

    def weights(self) -> Weights:
        """Read the weights."""
        return self.model.weights()

    def statistics(self) -> Weights:
        """Read the tracked statistics."""
        return self.model.statistics()

    def optimizer_state(self) -> Weights:
        """Read what the optimizer keeps."""
        return self.rule.state()

    def carried(self) -> Weights:
        """Read the state of the recurrent layers."""
        return self.carried_states.named()

    def forget(self) -> None:
        """Let the recurrent layers begin with zeros."""
        self.carried_states.forget()

    def feed_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            self.model.masks[name].feed(mask)

    def exchanged(self) -> None:
        """Tell nothing: TensorFlow shows no clock of an exchange inside a step."""

    def close(self) -> None:
        """Do nothing: nobody else is there."""


def _like_input(network: Any) -> tuple[tuple[int | None, ...], str]:
    """Tell shape and type of what a Keras model takes, without the states."""
    first = network.inputs[0]
    return tuple(first.shape), first.dtype
