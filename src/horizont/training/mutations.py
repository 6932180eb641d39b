"""Seeded defects that the comparator must detect, applied to one framework at a time.

Each changes one detail of the training setup, of the examples or of a method of the trainer, as a
bug in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from horizont.frameworks.base import InMemoryImages, TrainingSetup
from horizont.networks.layers import LSTM, BatchNorm, Conv, Flatten, Layer, MaxPool
from horizont.training import defective_trainers as trainers

#: Changes a training setup and its examples.
SetupMutation = Callable[[TrainingSetup, Any], tuple[TrainingSetup, Any]]

#: The indices of the examples, batch by batch.
Order = Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class Mutation:
    """A seeded defect: in setup and examples, or in the trainer, which is None without a defect."""

    setup: SetupMutation = lambda setup, examples: (setup, examples)
    trainer: type[trainers.DefectiveTrainer] | None = None


NO_MUTATION = Mutation()


def padding(setup: TrainingSetup) -> TrainingSetup:
    """Set one more pixel of padding for the first convolution; pooling hides the other shape."""
    layers = list(setup.network.layers)
    index = next(index for index, layer in enumerate(layers) if isinstance(layer, Conv))
    first = cast(Conv, layers[index])
    layers[index] = replace(first, padding=first.padding + 1)
    return replace(setup, network=replace(setup.network, layers=tuple(layers)))


def initial_weights(setup: TrainingSetup) -> TrainingSetup:
    """Start with the last matrix one per cent too large."""
    last = [name for name in setup.weights if name.endswith(".weight")][-1]
    return replace(setup, weights={**setup.weights, last: setup.weights[last] * 1.01})


def learning_rate(setup: TrainingSetup) -> TrainingSetup:
    """Set the learning rate one per cent too large."""
    rate = setup.optimizer.learning_rate * 1.01
    return replace(setup, optimizer=setup.optimizer.model_copy(update={"learning_rate": rate}))


def nesterov(setup: TrainingSetup) -> TrainingSetup:
    """Apply Nesterov momentum instead of plain momentum."""
    return replace(setup, optimizer=setup.optimizer.model_copy(update={"nesterov": True}))


def scaled_gradient(setup: TrainingSetup) -> TrainingSetup:
    """Set a factor of 1.001 for the gradient of the second matrix or kernel."""
    second = [name for name in setup.weights if name.endswith(".weight")][1]
    return replace(setup, gradient_factors={second: 1.001})


def mixed_states(order: Order) -> Order:
    """Set another order of the rows in each batch, so that each row gets a wrong LSTM state."""
    return [np.roll(starts, step) for step, starts in enumerate(order)]


def dropped_partial_batch(order: Order) -> Order:
    """Replace the partial last batch by a full one, filled from the next epoch."""
    full = np.concatenate([order[-1], order[0]])[: len(order[0])]
    return [*order[:-1], full]


def data_order(order: Order) -> Order:
    """Replace the second batch by the third, and vice versa."""
    return [order[0], *reversed(order[1:3]), *order[3:]]


def repeated_example(order: Order) -> Order:
    """Replace the last example of each batch by its first one, from the second step on."""
    return [order[0], *(np.append(indices[:-1], indices[0]) for indices in order[1:])]


def padded_partial_batch(order: Order) -> Order:
    """Append the first examples of the set to the partial last batch."""
    padding = np.arange(len(order[0]) - len(order[-1]))
    return [*order[:-1], np.append(order[-1], padding)]


def label_shift(setup: TrainingSetup, examples: Any) -> tuple[TrainingSetup, Any]:
    """Replace every label by the next class."""
    shifted = (examples.labels + 1) % setup.network.classes
    return setup, replace(examples, labels=shifted)


def random_flips(
    setup: TrainingSetup, examples: InMemoryImages
) -> tuple[TrainingSetup, InMemoryImages]:
    """Invert the columns of half of the images, at random, from the second batch on."""
    random = np.random.default_rng()
    batches = [examples.images[indices] for indices in examples.order]
    for batch in batches[1:]:
        flipped = random.random(len(batch)) < 0.5
        batch[flipped] = batch[flipped, ..., ::-1]
    starts = np.cumsum([0, *map(len, batches)])
    order = [np.arange(len(batch)) + start for batch, start in zip(batches, starts, strict=False)]
    labels = np.concatenate([examples.labels[indices] for indices in examples.order])
    return setup, InMemoryImages(np.concatenate(batches), labels, order)


def _of_setup(change: Callable[[TrainingSetup], TrainingSetup]) -> SetupMutation:
    return lambda setup, examples: (change(setup), examples)


def _of_fields(**fields: Any) -> SetupMutation:
    return lambda setup, examples: (replace(setup, **fields), examples)


def _of_layers(layer_type: type[Layer], **fields: Any) -> SetupMutation:
    """Return a mutation that sets fields of all layers of a type."""
    return _of_setup(
        lambda setup: replace(setup, network=setup.network.with_fields(layer_type, **fields))
    )


def _of_order(change: Callable[[Order], Order]) -> SetupMutation:
    return lambda setup, examples: (setup, replace(examples, order=change(examples.order)))


_SETUP_MUTATIONS: dict[str, SetupMutation] = {
    "padding": _of_setup(padding),
    # Channels last.
    "flatten_order": _of_layers(Flatten, order="hwc"),
    # The sum over the batch instead of the mean.
    "loss_reduction": _of_fields(loss_reduction="sum"),
    "initial_weights": _of_setup(initial_weights),
    "learning_rate": _of_setup(learning_rate),
    "nesterov": _of_setup(nesterov),
    # Biases, scales and offsets decay, too.
    "decayed_biases": _of_fields(decay_all=True),
    "scaled_gradient": _of_setup(scaled_gradient),
    # The rows of the LSTM's forget gate in the place of those of the cell, and vice versa.
    "gate_order": _of_layers(LSTM, gates="icfo"),
    "mixed_states": _of_order(mixed_states),
    # Running statistics change ten times more slowly.
    "norm_momentum": _of_layers(BatchNorm, momentum=0.99),
    # Another framework's default.
    "norm_epsilon": _of_layers(BatchNorm, epsilon=1e-3),
    "pooling_mode": _of_layers(MaxPool, mode="average"),
    "dropped_partial_batch": _of_order(dropped_partial_batch),
    "padded_partial_batch": _of_order(padded_partial_batch),
    "random_flips": random_flips,
    "repeated_example": _of_order(repeated_example),
    "label_shift": label_shift,
    "data_order": _of_order(data_order),
}

_TRAINER_MUTATIONS: dict[str, type[trainers.DefectiveTrainer]] = {
    "nan_weights": trainers.NaNWeights,
    "neighbouring_state": trainers.NeighbouringState,
    "shared_state": trainers.SharedState,
    "instrumented_update": trainers.SkippedInstrumentedUpdate,
    "profiled_update": trainers.SkippedProfiledUpdate,
    "dropped_update": trainers.DroppedUpdate,
    "training_mode": trainers.TrainingModePrediction,
    "float16_batches": trainers.Float16LargeBatches,
    "float16_logits": trainers.Float16Logits,
    "inaccurate_logits": trainers.InaccurateLogits,
}

MUTATIONS_BY_NAME = {
    **{name: Mutation(setup=mutate) for name, mutate in _SETUP_MUTATIONS.items()},
    **{name: Mutation(trainer=mutate) for name, mutate in _TRAINER_MUTATIONS.items()},
}
