"""Chapter 7: the four ways to split the training of a network between two processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from horizont_textbook import Array
from horizont_textbook.loss import cross_entropy_gradient, gradients_by_hand
from horizont_textbook.ring import ring_all_reduce

if TYPE_CHECKING:
    from horizont_textbook.group import Group

Arrays = dict[str, Array]

PROCESSES = 2

STEPS, RATE = 3, 0.5

#: What computes the gradients: the functions of this file, or automatic differentiation.
ENGINES = ("NumPy", "PyTorch")


@dataclass(frozen=True)
class LayerSizes:
    """The sizes of a network with one hidden layer and of its batch."""

    examples: int
    inputs: int
    hidden: int
    classes: int

    @property
    def weights(self) -> int:
        """Number of weights."""
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes


SMALL = LayerSizes(examples=12, inputs=8, hidden=6, classes=4)


#: The axis along which an array is split into equal parts; one that is not split is held as a whole
#: by "process 0", by "process 1", or by "both".
AXES = {"rows": 0, "columns": 1}


def part_of(array: Array, split: str, rank: int) -> Array:
    """Return the part of an array that a process holds; empty if it holds none."""
    if split in AXES:
        return np.split(array, PROCESSES, AXES[split])[rank]
    return array if split in ("both", f"process {rank}") else array[:0]


def merge(parts: Sequence[Array], split: str) -> Array:
    """Return an array from the parts of all processes that hold one."""
    return np.concatenate(parts, AXES[split]) if split in AXES else parts[0]


def layer_split(w: Arrays, x: Array, labels: Array, group: Group) -> Arrays:
    """Send activations from process 0 to process 1, and gradients back."""
    if group.rank == 0:
        h = np.tanh(x @ w["W1"] + w["b1"])
        group.send(h, 1)
        by_s = group.receive(h.shape, 1) * (1 - h**2)
        return {"W1": x.T @ by_s, "b1": by_s.sum(0)}
    h = group.receive((len(labels), len(w["W2"])), 0)
    by_z = cross_entropy_gradient(h @ w["W2"] + w["b2"], labels)
    group.send(by_z @ w["W2"].T, 0)
    return {"W2": h.T @ by_z, "b2": by_z.sum(0)}


def column_parallel(w: Arrays, x: Array, labels: Array, group: Group) -> Arrays:
    """Compute half of the neurons of both layers, and gather the outputs."""
    own_h = np.tanh(x @ w["W1"] + w["b1"])
    h = all_gather(own_h, group)
    by_z = cross_entropy_gradient(all_gather(h @ w["W2"] + w["b2"], group), labels)
    own_z = np.split(by_z, group.size, axis=1)[group.rank]
    by_h = all_reduce(own_z @ w["W2"].T, group)  # each neuron feeds the scores of both halves
    by_s = np.split(by_h, group.size, axis=1)[group.rank] * (1 - own_h**2)
    return {"W1": x.T @ by_s, "b1": by_s.sum(0), "W2": h.T @ own_z, "b2": own_z.sum(0)}


def tensor_parallel(w: Arrays, x: Array, labels: Array, group: Group) -> Arrays:
    """Compute half of the hidden neurons with their inputs and outputs, and sum the scores."""
    h = np.tanh(x @ w["W1"] + w["b1"])
    by_z = cross_entropy_gradient(all_reduce(h @ w["W2"], group) + w["b2"], labels)
    by_s = by_z @ w["W2"].T * (1 - h**2)
    return {"W1": x.T @ by_s, "b1": by_s.sum(0), "W2": h.T @ by_z, "b2": by_z.sum(0)}


def data_parallel(w: Arrays, x: Array, labels: Array, group: Group) -> Arrays:
    """Compute the gradients of half of the batch, and average them."""
    return average_gradients(gradients_by_hand(x=x, labels=labels, **w), group)


def average_gradients(own: Arrays, group: Group) -> Arrays:
    """Return the mean of the gradients of all processes, by one all-reduce."""
    flat = np.concatenate([gradient.ravel() for gradient in own.values()])
    mean = ring_all_reduce(flat, group) / group.size
    parts = np.split(mean, np.cumsum([gradient.size for gradient in own.values()])[:-1])
    return {name: part.reshape(own[name].shape) for name, part in zip(own, parts, strict=True)}


def all_gather(own: Array, group: Group) -> Array:
    """Return the columns of both processes."""
    other = group.exchange(own, 1 - group.rank, own.shape, 1 - group.rank)
    return np.concatenate((own, other) if group.rank == 0 else (other, own), axis=1)


def all_reduce(own: Array, group: Group) -> Array:
    """Return the sum of the arrays of both processes."""
    return ring_all_reduce(own.ravel(), group).reshape(own.shape)


@dataclass(frozen=True)
class SplitStrategy:
    """A way to split the training of a network between two processes.

    Attributes
    ----------
    gradients
        From weights, inputs, labels and group of a process to the gradients of its weights.
    sent
        How many numbers each process sends in a step.
    splits
        How the weights, `x` and `labels` are split, as far as not both processes hold them.
    """

    gradients: Callable[[Arrays, Array, Array, Group], Arrays]
    sent: Callable[[LayerSizes], int]
    splits: Mapping[str, str]

    def split(self, name: str) -> str:
        """Return how an array is split."""
        return self.splits.get(name, "both")


STRATEGIES = {
    "between layers": SplitStrategy(
        layer_split,
        lambda s: s.examples * s.hidden,
        dict.fromkeys(("x", "W1", "b1"), "process 0")
        | dict.fromkeys(("W2", "b2", "labels"), "process 1"),
    ),
    "within layers, columns": SplitStrategy(
        column_parallel,
        lambda s: s.examples * (s.hidden + s.classes) // 2 + s.examples * s.hidden,
        {"W1": "columns", "b1": "rows", "W2": "columns", "b2": "rows"},
    ),
    "within layers, columns and rows": SplitStrategy(
        tensor_parallel,
        lambda s: s.examples * s.classes,
        {"W1": "columns", "b1": "rows", "W2": "rows"},
    ),
    "data parallel": SplitStrategy(
        data_parallel, lambda s: s.weights, {"x": "rows", "labels": "rows"}
    ),
}


def initial_state() -> Arrays:
    """Draw inputs, labels and initial weights of the small network."""
    rng, s = np.random.default_rng(71), SMALL
    return {
        "x": rng.normal(size=(s.examples, s.inputs)),
        "labels": rng.integers(0, s.classes, s.examples),
        "W1": rng.normal(0, s.inputs**-0.5, (s.inputs, s.hidden)),
        "b1": np.zeros(s.hidden),
        "W2": rng.normal(0, s.hidden**-0.5, (s.hidden, s.classes)),
        "b2": np.zeros(s.classes),
    }


def train(gradients: Callable[[Arrays], Arrays], weights: Arrays) -> Arrays:
    """Run gradient descent; return the gradients of the first step and the last weights."""
    first: Arrays = {}
    for _ in range(STEPS):
        found = gradients(weights)
        first = first or {f"gradient {name}": value for name, value in found.items()}
        weights = {name: weights[name] - RATE * found[name] for name in found}
    return first | {f"weight {name}": value for name, value in weights.items()}


def train_in_one_process() -> Arrays:
    """Train the small network in one process."""
    state = initial_state()
    x, labels = state.pop("x"), state.pop("labels")
    return train(lambda w: gradients_by_hand(x=x, labels=labels, **w), state)
