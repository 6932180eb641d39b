"""Seeded defects that the comparator must detect, applied to one framework at a time.

Each changes one detail of the training setup, of the examples or of a method of the trainer, as a
bug in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np

from horizont.config.jobs import TraceRun
from horizont.frameworks.base import InMemoryImages, Trainer, TrainingSetup
from horizont.networks.layers import LSTM, BatchNorm, Conv, Flatten, Layer, MaxPool
from horizont.training import defective_trainers as trainers
from horizont.training.wrapped_trainer import BuildTrainer

#: A training setup and its examples.
MutatedTraining = tuple[TrainingSetup, Any]

SetupMutation = Callable[[TrainingSetup, Any], MutatedTraining]


class TrainerMutation(Protocol):
    """A mutation of the trainer of a trace."""

    def __call__(
        self, build: BuildTrainer, setup: TrainingSetup, *, trace_run: TraceRun
    ) -> Trainer:
        """Build the trainer with the defect."""


def _unchanged_setup(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    return setup, examples


def _unchanged_trainer(
    build: BuildTrainer, setup: TrainingSetup, *, trace_run: TraceRun
) -> Trainer:
    del trace_run
    return build(setup)


@dataclass(frozen=True)
class Mutation:
    """A seeded defect: in setup and examples, or in the trainer."""

    setup: SetupMutation = _unchanged_setup
    trainer: TrainerMutation = _unchanged_trainer


NO_MUTATION = Mutation()


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


def random_flips(setup: TrainingSetup, examples: InMemoryImages) -> MutatedTraining:
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


def repeated_example(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Replace the last example of each batch by its first one, from the second step on."""
    later = [np.append(indices[:-1], indices[0]) for indices in examples.order[1:]]
    return setup, replace(examples, order=[examples.order[0], *later])


def padded_partial_batch(setup: TrainingSetup, examples: Any) -> MutatedTraining:
    """Append the first examples of the set to the partial last batch."""
    first, last = examples.order[0], examples.order[-1]
    padding = np.arange(len(first) - len(last))
    return setup, replace(examples, order=[*examples.order[:-1], np.append(last, padding)])


def _set_layer_fields(layer_type: type[Layer], **fields: Any) -> SetupMutation:
    """Return a mutation that sets fields of all layers of a type."""

    def mutate(setup: TrainingSetup, examples: Any) -> MutatedTraining:
        layers = tuple(
            replace(layer, **fields) if isinstance(layer, layer_type) else layer
            for layer in setup.network.layers
        )
        return replace(setup, network=replace(setup.network, layers=layers)), examples

    return mutate


def _set_fields(**fields: Any) -> SetupMutation:
    """Return a mutation that sets fields of the training setup."""
    return lambda setup, examples: (replace(setup, **fields), examples)


_SETUP_MUTATIONS: dict[str, SetupMutation] = {
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
    "padded_partial_batch": padded_partial_batch,
    "random_flips": random_flips,
    "repeated_example": repeated_example,
    "label_shift": label_shift,
    "data_order": data_order,
}

_TRAINER_MUTATIONS: dict[str, TrainerMutation] = {
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
