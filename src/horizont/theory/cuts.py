"""Four ways to cut the training of a network of two layers for two processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.backpropagation import WEIGHTS, by_hand
from horizont.theory.ring import ring_all_reduce
from horizont.theory.scores import cross_entropy_backward
from horizont.theory.together.peers import Peers

Array = NDArray[Any]
Arrays = dict[str, Array]

MEMBERS = 2


@dataclass(frozen=True)
class Sizes:
    """A network of two layers and its batch: so many numbers each."""

    examples: int
    inputs: int
    hidden: int
    classes: int

    @property
    def weights(self) -> int:
        """How many numbers the network learns."""
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes


@dataclass(frozen=True)
class Part:
    """Which part of an array each process holds.

    Attributes
    ----------
    axis
        Along which it is cut into equal pieces; None if it is not.
    owner
        The only process that holds it; None if all do.
    """

    axis: int | None = None
    owner: int | None = None

    def of(self, whole: Array, rank: int) -> Array | None:
        """Cut out a process's part; None if it holds nothing."""
        if self.owner not in (None, rank):
            return None
        return whole if self.axis is None else np.split(whole, MEMBERS, self.axis)[rank]

    def joined(self, parts: Sequence[Array]) -> Array:
        """Put the parts of all who hold some together again."""
        return parts[0] if self.axis is None else np.concatenate(parts, self.axis)


#: From a process's weights, inputs and labels to the gradients of its weights.
Gradients = Callable[[Arrays, Array, Array, Peers], Arrays]


def by_layers(w: Arrays, x: Array, labels: Array, peers: Peers) -> Arrays:
    """Process 0 has the first layer, process 1 the second: activations on, gradients back."""
    if peers.rank == 0:
        h = np.tanh(x @ w["W1"] + w["b1"])
        peers.send(h, 1)
        by_sum = peers.receive(h.shape, 1) * (1 - h**2)
        return {"W1": x.T @ by_sum, "b1": by_sum.sum(0)}
    h = peers.receive((len(labels), len(w["W2"])), 0)
    by_z = _error(h @ w["W2"] + w["b2"], labels)
    peers.send(by_z @ w["W2"].T, 0)
    return {"W2": h.T @ by_z, "b2": by_z.sum(0)}


def by_columns(w: Arrays, x: Array, labels: Array, peers: Peers) -> Arrays:
    """Each process has half of the neurons of both layers; outputs are put side by side."""
    own_h = np.tanh(x @ w["W1"] + w["b1"])
    h = _side_by_side(own_h, peers)
    by_z = _error(_side_by_side(h @ w["W2"] + w["b2"], peers), labels)
    own_z = np.split(by_z, peers.size, axis=1)[peers.rank]
    by_h = _summed(own_z @ w["W2"].T, peers)  # every neuron feeds those of both halves
    by_sum = np.split(by_h, peers.size, axis=1)[peers.rank] * (1 - own_h**2)
    return {
        "W1": x.T @ by_sum,
        "b1": by_sum.sum(0),
        "W2": h.T @ own_z,
        "b2": own_z.sum(0),
    }


def by_columns_and_rows(w: Arrays, x: Array, labels: Array, peers: Peers) -> Arrays:
    """Each process has half of the hidden neurons, with what goes in and what comes out."""
    h = np.tanh(x @ w["W1"] + w["b1"])
    by_z = _error(_summed(h @ w["W2"], peers) + w["b2"], labels)
    by_sum = by_z @ w["W2"].T * (1 - h**2)
    return {"W1": x.T @ by_sum, "b1": by_sum.sum(0), "W2": h.T @ by_z, "b2": by_z.sum(0)}


def by_batch(w: Arrays, x: Array, labels: Array, peers: Peers) -> Arrays:
    """Each process has the whole network and half of the batch; gradients are averaged."""
    own = by_hand(x=x, labels=labels, **w)
    row = np.concatenate([own[name].ravel() for name in WEIGHTS])
    mean = ring_all_reduce(row, peers) / peers.size
    ends = np.cumsum([own[name].size for name in WEIGHTS])[:-1]
    pieces = zip(WEIGHTS, np.split(mean, ends), strict=True)
    return {name: piece.reshape(own[name].shape) for name, piece in pieces}


@dataclass(frozen=True)
class Way:
    """A way to share a network's training among two processes.

    Attributes
    ----------
    held
        By name of the weight; what is not named is held whole by both.
    sent
        How many numbers each process sends in a step, from the sizes.
    inputs, labels
        Who holds which part of the batch.
    """

    gradients: Gradients
    held: Mapping[str, Part]
    sent: Callable[[Sizes], int]
    inputs: Part = Part()
    labels: Part = Part()

    def own(self, weights: Mapping[str, Array], rank: int) -> Arrays:
        """Cut out a process's weights."""
        parts = {name: self.held.get(name, Part()).of(w, rank) for name, w in weights.items()}
        return {name: part.copy() for name, part in parts.items() if part is not None}

    def batch(self, given: Mapping[str, Array], rank: int) -> tuple[Array, Array]:
        """Cut out a process's inputs and labels; empty where it needs none."""
        x, labels = self.inputs.of(given["x"], rank), self.labels.of(given["labels"], rank)
        return given["x"][:0] if x is None else x, given["labels"][:0] if labels is None else labels

    def whole(self, name: str, parts: Sequence[Array]) -> Array:
        """Put a weight, or its gradient, together again."""
        return self.held.get(name, Part()).joined(parts)


WAYS = {
    "between layers": Way(
        by_layers,
        {"W1": Part(owner=0), "b1": Part(owner=0), "W2": Part(owner=1), "b2": Part(owner=1)},
        lambda s: s.examples * s.hidden,
        inputs=Part(owner=0),
        labels=Part(owner=1),
    ),
    "within layers, columns": Way(
        by_columns,
        {"W1": Part(axis=1), "b1": Part(axis=0), "W2": Part(axis=1), "b2": Part(axis=0)},
        lambda s: s.examples * (s.hidden + s.classes) // 2 + s.examples * s.hidden,
    ),
    "within layers, columns and rows": Way(
        by_columns_and_rows,
        {"W1": Part(axis=1), "b1": Part(axis=0), "W2": Part(axis=0)},
        lambda s: s.examples * s.classes,
    ),
    "data parallel": Way(
        by_batch, {}, lambda s: s.weights, inputs=Part(axis=0), labels=Part(axis=0)
    ),
}


def _error(z: Array, labels: Array) -> Array:
    """Derive the mean cross-entropy by the scores."""
    return np.asarray(cross_entropy_backward(np.ones(()), np.ones(()), z, labels)[0])


def _side_by_side(own: Array, peers: Peers) -> Array:
    """Put everybody's columns side by side."""
    parts = [own] * peers.size
    for distance in range(1, peers.size):
        to, source = (peers.rank + distance) % peers.size, (peers.rank - distance) % peers.size
        parts[source] = peers.exchange(own, to, own.shape, source)
    return np.concatenate(parts, axis=1)


def _summed(own: Array, peers: Peers) -> Array:
    """Sum everybody's arrays."""
    return ring_all_reduce(own.ravel(), peers).reshape(own.shape)
