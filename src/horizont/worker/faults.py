"""Deliberate mistakes that the comparator must catch, applied to one framework at a time.

Each takes what the framework is told and bends one thing, as a slip in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from horizont.frameworks.base import Recipe
from horizont.networks import LSTM, BatchNorm, Conv, Flatten, Layer, MaxPool

#: What a framework is told: how to train, and on what.
Told = tuple[Recipe, Any]

Fault = Callable[[Recipe, Any], Told]


def _with_layers(recipe: Recipe, change: Callable[[Layer], Layer]) -> Recipe:
    layers = tuple(change(layer) for layer in recipe.network.layers)
    return replace(recipe, network=replace(recipe.network, layers=layers))


def padding(recipe: Recipe, examples: Any) -> Told:
    """Pad the first convolution by one more; pooling rounds the difference in shape away."""
    first = next(layer for layer in recipe.network.layers if isinstance(layer, Conv))

    def pad(layer: Layer) -> Layer:
        return replace(first, padding=first.padding + 1) if layer is first else layer

    return _with_layers(recipe, pad), examples


def flatten_order(recipe: Recipe, examples: Any) -> Told:
    """Flatten with the channels last."""

    def turn(layer: Layer) -> Layer:
        return replace(layer, order="hwc") if isinstance(layer, Flatten) else layer

    return _with_layers(recipe, turn), examples


def loss_reduction(recipe: Recipe, examples: Any) -> Told:
    """Sum the loss over the batch where the mean is meant."""
    return replace(recipe, loss_reduction="sum"), examples


def initial_weights(recipe: Recipe, examples: Any) -> Told:
    """Start the last matrix one per cent too large."""
    last = [name for name in recipe.weights if name.endswith(".weight")][-1]
    return replace(recipe, weights={**recipe.weights, last: recipe.weights[last] * 1.01}), examples


def learning_rate(recipe: Recipe, examples: Any) -> Told:
    """Learn one per cent too fast."""
    rate = recipe.optimizer.learning_rate * 1.01
    optimizer = recipe.optimizer.model_copy(update={"learning_rate": rate})
    return replace(recipe, optimizer=optimizer), examples


def nesterov(recipe: Recipe, examples: Any) -> Told:
    """Look ahead with the momentum, where plain momentum is meant."""
    optimizer = recipe.optimizer.model_copy(update={"nesterov": True})
    return replace(recipe, optimizer=optimizer), examples


def decayed_biases(recipe: Recipe, examples: Any) -> Told:
    """Let biases, scales and offsets decay, too."""
    return replace(recipe, decay_all=True), examples


def scaled_gradient(recipe: Recipe, examples: Any) -> Told:
    """Scale the gradient of the second matrix or kernel by 1.001."""
    second = [name for name in recipe.weights if name.endswith(".weight")][1]
    return replace(recipe, gradient_factors={second: 1.001}), examples


def norm_momentum(recipe: Recipe, examples: Any) -> Told:
    """Track the statistics of batch norm ten times more slowly."""

    def slow(layer: Layer) -> Layer:
        return replace(layer, momentum=0.99) if isinstance(layer, BatchNorm) else layer

    return _with_layers(recipe, slow), examples


def norm_epsilon(recipe: Recipe, examples: Any) -> Told:
    """Add another framework's default epsilon to the variances of batch norm."""

    def blur(layer: Layer) -> Layer:
        return replace(layer, epsilon=1e-3) if isinstance(layer, BatchNorm) else layer

    return _with_layers(recipe, blur), examples


def pooling_mode(recipe: Recipe, examples: Any) -> Told:
    """Take averages where the largest is meant."""

    def average(layer: Layer) -> Layer:
        return replace(layer, mode="average") if isinstance(layer, MaxPool) else layer

    return _with_layers(recipe, average), examples


def gate_order(recipe: Recipe, examples: Any) -> Told:
    """Take the rows of the forget gate for those of the cell, and the other way round."""

    def swap(layer: Layer) -> Layer:
        return replace(layer, gates="icfo") if isinstance(layer, LSTM) else layer

    return _with_layers(recipe, swap), examples


def mixed_states(recipe: Recipe, examples: Any) -> Told:
    """Let the rows of a batch change places from step to step, so that each has a wrong state."""
    order = [np.roll(starts, step) for step, starts in enumerate(examples.order)]
    return recipe, replace(examples, order=order)


def dropped_partial_batch(recipe: Recipe, examples: Any) -> Told:
    """Go on to a full batch of the next epoch in place of the uneven last one."""
    first, last = examples.order[0], examples.order[-1]
    full = np.concatenate([last, first])[: len(first)]
    return recipe, replace(examples, order=[*examples.order[:-1], full])


def label_shift(recipe: Recipe, examples: Any) -> Told:
    """Call every class by the number of the next one."""
    shifted = (examples.labels + 1) % recipe.network.classes
    return recipe, replace(examples, labels=shifted)


def data_order(recipe: Recipe, examples: Any) -> Told:
    """Swap the second and the third batch."""
    order = list(examples.order)
    order[1:3] = reversed(order[1:3])
    return recipe, replace(examples, order=[np.asarray(indices) for indices in order])


FAULTS: dict[str, Fault] = {
    "padding": padding,
    "flatten_order": flatten_order,
    "loss_reduction": loss_reduction,
    "initial_weights": initial_weights,
    "learning_rate": learning_rate,
    "nesterov": nesterov,
    "decayed_biases": decayed_biases,
    "scaled_gradient": scaled_gradient,
    "gate_order": gate_order,
    "mixed_states": mixed_states,
    "norm_momentum": norm_momentum,
    "norm_epsilon": norm_epsilon,
    "pooling_mode": pooling_mode,
    "dropped_partial_batch": dropped_partial_batch,
    "label_shift": label_shift,
    "data_order": data_order,
}
