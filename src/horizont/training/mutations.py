"""Seeded defects that the comparator must detect, applied to one framework at a time.

Each changes one detail of the training setup or of the examples, as a bug in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from horizont.frameworks.base import TrainingSetup
from horizont.networks.layers import LSTM, BatchNorm, Conv, Flatten, Layer, MaxPool

#: A training setup and its examples.
MutatedTraining = tuple[TrainingSetup, Any]

Mutation = Callable[[TrainingSetup, Any], MutatedTraining]


def _map_layers(setup: TrainingSetup, change: Callable[[Layer], Layer]) -> TrainingSetup:
    layers = tuple(change(layer) for layer in setup.network.layers)
    return replace(setup, network=replace(setup.network, layers=layers))


def _with_layer_field(
    setup: TrainingSetup, layer_type: type[Layer], **fields: Any
) -> TrainingSetup:
    """Set fields of all layers of a type."""

    def change(layer: Layer) -> Layer:
        return replace(layer, **fields) if isinstance(layer, layer_type) else layer

    return _map_layers(setup, change)


def padding(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set one more pixel of padding for the first convolution; pooling hides the other shape."""
    first = next(layer for layer in setup.network.layers if isinstance(layer, Conv))

    def pad(layer: Layer) -> Layer:
        return replace(first, padding=first.padding + 1) if layer is first else layer

    return _map_layers(setup, pad), examples


def flatten_order(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set channels last as the order of flattening."""
    return _with_layer_field(setup, Flatten, order="hwc"), examples


def loss_reduction(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Sum the loss over the batch instead of averaging it."""
    return replace(setup, loss_reduction="sum"), examples


def initial_weights(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Start with the last matrix one per cent too large."""
    last = [name for name in setup.weights if name.endswith(".weight")][-1]
    return replace(setup, weights={**setup.weights, last: setup.weights[last] * 1.01}), examples


def learning_rate(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set the learning rate one per cent too large."""
    rate = setup.optimizer.learning_rate * 1.01
    optimizer = setup.optimizer.model_copy(update={"learning_rate": rate})
    return replace(setup, optimizer=optimizer), examples


def nesterov(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Apply Nesterov momentum instead of plain momentum."""
    optimizer = setup.optimizer.model_copy(update={"nesterov": True})
    return replace(setup, optimizer=optimizer), examples


def decayed_biases(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Apply weight decay to biases, scales and offsets, too."""
    return replace(setup, decay_all=True), examples


def scaled_gradient(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set a factor of 1.001 for the gradient of the second matrix or kernel."""
    second = [name for name in setup.weights if name.endswith(".weight")][1]
    return replace(setup, gradient_factors={second: 1.001}), examples


def norm_momentum(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Update the running statistics of batch norm ten times more slowly."""
    return _with_layer_field(setup, BatchNorm, momentum=0.99), examples


def norm_epsilon(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set the epsilon of batch norm to another framework's default."""
    return _with_layer_field(setup, BatchNorm, epsilon=1e-3), examples


def pooling_mode(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Replace max pooling by average pooling."""
    return _with_layer_field(setup, MaxPool, mode="average"), examples


def gate_order(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Replace the rows of the LSTM's forget gate by those of the cell, and vice versa."""
    return _with_layer_field(setup, LSTM, gates="icfo"), examples


def mixed_states(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set another order of the rows in each batch, so that each row gets a wrong LSTM state."""
    order = [np.roll(starts, step) for step, starts in enumerate(examples.order)]
    return setup, replace(examples, order=order)


def dropped_partial_batch(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Replace the partial last batch by a full one, filled from the next epoch."""
    first, last = examples.order[0], examples.order[-1]
    full = np.concatenate([last, first])[: len(first)]
    return setup, replace(examples, order=[*examples.order[:-1], full])


def label_shift(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Replace every label by the next class."""
    shifted = (examples.labels + 1) % setup.network.classes
    return setup, replace(examples, labels=shifted)


def data_order(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Replace the second batch by the third, and vice versa."""
    order = list(examples.order)
    order[1:3] = reversed(order[1:3])
    return setup, replace(examples, order=[np.asarray(indices) for indices in order])


MUTATION_FUNCTIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        padding,
        flatten_order,
        loss_reduction,
        initial_weights,
        learning_rate,
        nesterov,
        decayed_biases,
        scaled_gradient,
        gate_order,
        mixed_states,
        norm_momentum,
        norm_epsilon,
        pooling_mode,
        dropped_partial_batch,
        label_shift,
        data_order,
    )
}
