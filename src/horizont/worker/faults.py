"""Deliberate mistakes that the comparator must catch, applied to one framework at a time.

Each takes what the framework is told and bends one thing, as a slip in an adapter would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from horizont.frameworks.base import Examples, Recipe
from horizont.networks import Conv, Flatten, Layer

Fault = Callable[[Recipe, Examples], tuple[Recipe, Examples]]


def _with_layers(recipe: Recipe, change: Callable[[Layer], Layer]) -> Recipe:
    layers = tuple(change(layer) for layer in recipe.network.layers)
    return replace(recipe, network=replace(recipe.network, layers=layers))


def padding(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Pad the first convolution by one more; pooling rounds the difference in shape away."""
    first = next(layer for layer in recipe.network.layers if isinstance(layer, Conv))

    def pad(layer: Layer) -> Layer:
        return replace(first, padding=first.padding + 1) if layer is first else layer

    return _with_layers(recipe, pad), examples


def flatten_order(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Flatten with the channels last."""

    def turn(layer: Layer) -> Layer:
        return replace(layer, order="hwc") if isinstance(layer, Flatten) else layer

    return _with_layers(recipe, turn), examples


def loss_reduction(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Sum the loss over the batch where the mean is meant."""
    return replace(recipe, loss_reduction="sum"), examples


def initial_weights(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Start the last matrix one per cent too large."""
    last = [name for name in recipe.weights if name.endswith(".weight")][-1]
    return replace(recipe, weights={**recipe.weights, last: recipe.weights[last] * 1.01}), examples


def learning_rate(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Learn one per cent too fast."""
    rate = recipe.optimizer.learning_rate * 1.01
    optimizer = recipe.optimizer.model_copy(update={"learning_rate": rate})
    return replace(recipe, optimizer=optimizer), examples


def label_shift(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Call every class by the number of the next one."""
    shifted = (examples.labels + 1) % recipe.network.classes
    return recipe, replace(examples, labels=shifted)


def data_order(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
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
    "label_shift": label_shift,
    "data_order": data_order,
}
