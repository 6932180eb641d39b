"""Training with TensorFlow in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import Examples, Mark, Probe, Recipe, Weights
from horizont.frameworks.tensorflow import input as pipeline
from horizont.frameworks.tensorflow.loss import Loss
from horizont.frameworks.tensorflow.model import build_model
from horizont.frameworks.tensorflow.optimizer import Rule


class LocalTrainer:
    """A network, its loss and its update rule, compiled in two ways.

    A bare step is one compiled function. An instrumented step is three: called under a tape that
    is not compiled itself, a compiled forward pass brings its backward pass as a function of its
    own. On a processor such a call returns when everything in it has been computed.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.model = build_model(recipe)
        self.variables = self.model.variables
        self.loss = Loss(recipe.loss_reduction)
        self.factors = recipe.gradient_factors
        self.normalise = pipeline.Normaliser(recipe.normalisation, recipe.dtype)
        self.rule = Rule(recipe, self.model)
        self._compile(recipe)

    def _compile(self, recipe: Recipe) -> None:
        """Wrap what a step consists of in compiled functions that fit any size of batch."""
        channels, *sides = recipe.network.input_shape
        images = tf.TensorSpec((None, *sides, channels), recipe.dtype)
        batch = [images, tf.TensorSpec((None,), tf.int64)]
        gradients = [tf.TensorSpec(variable.shape, recipe.dtype) for variable in self.variables]
        self.compiled_step = tf.function(self.train, input_signature=batch)
        self.compiled_forward = tf.function(self.forward, input_signature=batch)
        self.compiled_update = tf.function(self.update, input_signature=[gradients])
        self.compiled_scores = tf.function(self.score, input_signature=[images])

    def score(self, images: Any) -> Any:
        """Compute scores as in evaluation."""
        return self.model.network(images, training=False)

    def forward(self, images: Any, labels: Any) -> Any:
        """Compute the loss."""
        return self.loss(self.model.network(images, training=True), labels)

    def differentiate(self, images: Any, labels: Any) -> tuple[Any, Any, list[Any]]:
        """Compute scores, loss and gradients."""
        with tf.GradientTape() as tape:
            logits = self.model.network(images, training=True)
            loss = self.loss(logits, labels)
        return logits, loss, self._scaled(tape.gradient(loss, self.variables))

    def _scaled(self, gradients: list[Any]) -> list[Any]:
        """Multiply the gradients that have a factor."""
        if not self.factors:
            return gradients
        named = zip(self.model.slots, gradients, strict=True)
        return [gradient * self.factors.get(slot.name, 1.0) for slot, gradient in named]

    def update(self, gradients: Sequence[Any]) -> None:
        """Change the weights."""
        self.rule.apply(gradients)

    def train(self, images: Any, labels: Any) -> Any:
        """Make one training step; the body of the bare step."""
        _, loss, gradients = self.differentiate(images, labels)
        self.update(gradients)
        return loss

    def rehearse(self) -> None:
        """Compile the timed step; nothing is learned from it."""
        before = self.model.statistics()
        images = tf.zeros((1, *self.model.network.input_shape[1:]), self.normalise.dtype)
        self.differentiate_timed((images, tf.zeros((1,), tf.int64)), lambda phase: None)
        self.compiled_update.get_concrete_function()
        self.model.put_statistics(before)

    def batches(self, examples: Examples) -> Iterator[pipeline.Batch]:
        """Start the input pipeline."""
        return pipeline.batches(examples, self.normalise)

    def step(self, batch: pipeline.Batch) -> Any:
        """Make one training step."""
        return self.compiled_step(*batch)

    def differentiate_timed(self, batch: pipeline.Batch, mark: Mark) -> tuple[Any, list[Any]]:
        """Compute loss and gradients, in two phases."""
        with tf.GradientTape() as tape:
            loss = self.compiled_forward(*batch)
        mark("forward")
        gradients = self._scaled(tape.gradient(loss, self.variables))
        mark("backward")
        return loss, gradients

    def timed_step(self, batch: pipeline.Batch, mark: Mark) -> Any:
        """Make one training step, phase by phase."""
        loss, gradients = self.differentiate_timed(batch, mark)
        self.compiled_update(gradients)
        mark("update")
        return loss

    def settle(self, loss: Any) -> None:
        """Return at once: the step was over when it returned."""

    def loss_value(self, loss: Any) -> float:
        """Read a loss."""
        return float(loss)

    def predict(self, images: NDArray[Any]) -> NDArray[Any]:
        """Score images."""
        native = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
        scores: NDArray[Any] = self.compiled_scores(self.normalise(native)).numpy()
        return scores

    def probe(self, batch: pipeline.Batch) -> Probe:
        """Tell logits, loss and gradients without learning.

        Operator by operator: to compile what is asked for once takes longer than to do it.
        """
        before = self.model.statistics()
        logits, loss, gradients = self.differentiate(*batch)
        self.model.put_statistics(before)
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

    def feed_masks(self, masks: Weights) -> None:
        """Set the masks of the next step."""
        for name, mask in masks.items():
            self.model.masks[name].feed(mask)

    def close(self) -> None:
        """Do nothing: nobody else is there."""
