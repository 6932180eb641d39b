"""Deliberate mistakes that the comparator must catch, applied to one framework at a time.

Each takes what the framework is told and bends one thing, as a slip in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from horizont.frameworks.base import TrainingSetup
from horizont.networks.layers import LSTM, BatchNorm, Conv, Flatten, Layer, MaxPool

#: What a framework is told: how to train, and on what.
MutatedTraining = tuple[TrainingSetup, Any]

Mutation = Callable[[TrainingSetup, Any], MutatedTraining]


def _map_layers(setup: TrainingSetup, change: Callable[[Layer], Layer]) -> TrainingSetup:
    layers = tuple(change(layer) for layer in setup.network.layers)
    return replace(setup, network=replace(setup.network, layers=layers))


def padding(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Pad the first convolution by one more; pooling rounds the difference in shape away."""
    first = next(layer for layer in setup.network.layers if isinstance(layer, Conv))

    def pad(layer: Layer) -> Layer:
        return replace(first, padding=first.padding + 1) if layer is first else layer

    return _map_layers(setup, pad), examples


def flatten_order(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Flatten with the channels last."""

    def turn(layer: Layer) -> Layer:
        return replace(layer, order="hwc") if isinstance(layer, Flatten) else layer

    return _map_layers(setup, turn), examples


def loss_reduction(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Sum the loss over the batch where the mean is meant."""
    return replace(setup, loss_reduction="sum"), examples


def initial_weights(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Start the last matrix one per cent too large."""
    last = [name for name in setup.weights if name.endswith(".weight")][-1]
    return replace(setup, weights={**setup.weights, last: setup.weights[last] * 1.01}), examples


def learning_rate(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Learn one per cent too fast."""
    rate = setup.optimizer.learning_rate * 1.01
    optimizer = setup.optimizer.model_copy(update={"learning_rate": rate})
    return replace(setup, optimizer=optimizer), examples


def nesterov(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Look ahead with the momentum, where plain momentum is meant."""
    optimizer = setup.optimizer.model_copy(update={"nesterov": True})
    return replace(setup, optimizer=optimizer), examples


def decayed_biases(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Let biases, scales and offsets decay, too."""
    return replace(setup, decay_all=True), examples


def scaled_gradient(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Scale the gradient of the second matrix or kernel by 1.001."""
    second = [name for name in setup.weights if name.endswith(".weight")][1]
    return replace(setup, gradient_factors={second: 1.001}), examples


def norm_momentum(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Track the statistics of batch norm ten times more slowly."""

    def slow(layer: Layer) -> Layer:
        return replace(layer, momentum=0.99) if isinstance(layer, BatchNorm) else layer

    return _map_layers(setup, slow), examples


def norm_epsilon(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Add another framework's default epsilon to the variances of batch norm."""

    def blur(layer: Layer) -> Layer:
        return replace(layer, epsilon=1e-3) if isinstance(layer, BatchNorm) else layer

    return _map_layers(setup, blur), examples


def pooling_mode(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Take averages where the largest is meant."""

    def average(layer: Layer) -> Layer:
        return replace(layer, mode="average") if isinstance(layer, MaxPool) else layer

    return _map_layers(setup, average), examples


def gate_order(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Take the rows of the forget gate for those of the cell, and the other way round."""

    def swap(layer: Layer) -> Layer:
        return replace(layer, gates="icfo") if isinstance(layer, LSTM) else layer

    return _map_layers(setup, swap), examples


def mixed_states(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Let the rows of a batch change places from step to step, so that each has a wrong state."""
    order = [np.roll(starts, step) for step, starts in enumerate(examples.order)]
    return setup, replace(examples, order=order)


def dropped_partial_batch(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Go on to a full batch of the next epoch in place of the uneven last one."""
    first, last = examples.order[0], examples.order[-1]
    full = np.concatenate([last, first])[: len(first)]
    return setup, replace(examples, order=[*examples.order[:-1], full])


def label_shift(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Call every class by the number of the next one."""
    shifted = (examples.labels + 1) % setup.network.classes
    return setup, replace(examples, labels=shifted)


def data_order(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Swap the second and the third batch."""
    order = list(examples.order)
    order[1:3] = reversed(order[1:3])
    return setup, replace(examples, order=[np.asarray(indices) for indices in order])


MUTATION_FUNCTIONS: dict[str, Mutation] = {
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
