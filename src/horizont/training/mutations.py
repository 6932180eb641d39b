"""Seeded defects that the comparator must detect, applied to one framework at a time.

Each changes one detail of the training setup or of the examples, as a bug in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from horizont.frameworks.base import TrainingSetup
from horizont.networks.layers import LSTM, BatchNorm, Conv, Flatten, Layer, MaxPool

#: A training setup and its examples.
MutatedTraining = tuple[TrainingSetup, Any]

Mutation = Callable[[TrainingSetup, Any], MutatedTraining]


def padding(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set one more pixel of padding for the first convolution; pooling hides the other shape."""
    layers = list(setup.network.layers)
    index = next(index for index, layer in enumerate(layers) if isinstance(layer, Conv))
    first = cast(Conv, layers[index])
    layers[index] = replace(first, padding=first.padding + 1)
    return replace(setup, network=replace(setup.network, layers=tuple(layers))), examples


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


def scaled_gradient(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Set a factor of 1.001 for the gradient of the second matrix or kernel."""
    second = [name for name in setup.weights if name.endswith(".weight")][1]
    return replace(setup, gradient_factors={second: 1.001}), examples


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


def _set_layer_fields(layer_type: type[Layer], **fields: Any) -> Mutation:
    """Return a mutation that sets fields of all layers of a type."""

    def mutate(setup: TrainingSetup, examples: Any) -> MutatedTraining:
        layers = tuple(
            replace(layer, **fields) if isinstance(layer, layer_type) else layer
            for layer in setup.network.layers
        )
        return replace(setup, network=replace(setup.network, layers=layers)), examples

    return mutate


def _set_fields(**fields: Any) -> Mutation:
    """Return a mutation that sets fields of the training setup."""
    return lambda setup, examples: (replace(setup, **fields), examples)


MUTATION_FUNCTIONS: dict[str, Mutation] = {
    "padding": padding,
    # Channels last.
    "flatten_order": _set_layer_fields(Flatten, order="hwc"),
    # The sum over the batch instead of the mean.
    "loss_reduction": _set_fields(loss_reduction="sum"),
    "initial_weights": initial_weights,
    "learning_rate": learning_rate,
    "nesterov": nesterov,
    # Biases, scales and offsets decay, too.
    "decayed_biases": _set_fields(decay_all=True),
    "scaled_gradient": scaled_gradient,
    # The rows of the LSTM's forget gate in the place of those of the cell, and vice versa.
    "gate_order": _set_layer_fields(LSTM, gates="icfo"),
    "mixed_states": mixed_states,
    # Running statistics change ten times more slowly.
    "norm_momentum": _set_layer_fields(BatchNorm, momentum=0.99),
    # Another framework's default.
    "norm_epsilon": _set_layer_fields(BatchNorm, epsilon=1e-3),
    "pooling_mode": _set_layer_fields(MaxPool, mode="average"),
    "dropped_partial_batch": dropped_partial_batch,
    "label_shift": label_shift,
    "data_order": data_order,
}
