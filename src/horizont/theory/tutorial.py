"""Chapter 11: the classifier that the tutorial trains in one process and in several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.questions import Question
from horizont.theory.scores import cross_entropy, cross_entropy_backward

Array = NDArray[Any]

STEPS, BATCH, FEATURES, CLASSES = 5, 32, 6, 3
RATE = 0.5


@dataclass(frozen=True)
class Trained:
    """What a training came to.

    Attributes
    ----------
    losses
        Of the batch of each step, (steps,).
    weight, bias
        (features, classes) and (classes,).
    """

    losses: Array
    weight: Array
    bias: Array

    def distance(self, other: Trained) -> float:
        """Tell how far the weights of another are: norm of the difference over their norm."""
        own, others = (np.concatenate([t.weight.ravel(), t.bias]) for t in (self, other))
        return float(np.linalg.norm(others - own) / np.linalg.norm(own))


def examples(seed: int = 11) -> tuple[Array, Array]:
    """Make examples of three classes that a plane through zero can tell apart.

    Returns
    -------
    tuple
        float32 (steps, batch, features), and the classes, int64 (steps, batch).
    """
    random = np.random.default_rng(seed)
    planes = random.normal(size=(FEATURES, CLASSES))
    x = random.normal(size=(STEPS, BATCH, FEATURES)).astype(np.float32)
    return x, (x @ planes).argmax(axis=-1)


def slopes(x: Array, labels: Array, weight: Array, bias: Array) -> tuple[float, Array, Array]:
    """Tell the loss of some examples, and its gradients by weight and bias."""
    scores = x @ weight + bias
    loss = cross_entropy(scores, labels)
    by_scores = cross_entropy_backward(np.ones(()), loss, scores, labels)[0]
    return float(loss), x.T @ by_scores, by_scores.sum(axis=0)


def trained(workers: int = 1) -> Trained:
    """Train from zeros, each batch shared by some workers whose gradients are averaged."""
    weight, bias, losses = np.zeros((FEATURES, CLASSES)), np.zeros(CLASSES), []
    for x, labels in zip(*examples(), strict=True):
        shares = [slice(rank, None, workers) for rank in range(workers)]
        told = [slopes(x[own].astype(np.float64), labels[own], weight, bias) for own in shares]
        loss, by_weight, by_bias = (sum(parts) / workers for parts in zip(*told, strict=True))
        weight, bias = weight - RATE * by_weight, bias - RATE * by_bias
        losses.append(loss)
    return Trained(np.array(losses), weight, bias)


def shares_of_a_gradient(workers: int) -> tuple[Array, Array]:
    """Tell the gradient of the first batch, and those of each worker's share of it.

    Returns
    -------
    tuple
        By the weight: (features, classes) and (workers, features, classes). The shares have a
        mean that is the whole only if they are of one size.
    """
    x, labels = (each[0] for each in examples())
    start = np.zeros((FEATURES, CLASSES)), np.zeros(CLASSES)
    whole = slopes(x.astype(np.float64), labels, *start)[1]
    parts = [
        slopes(x[own].astype(np.float64), labels[own], *start)[1]
        for own in (slice(rank, None, workers) for rank in range(workers))
    ]
    return whole, np.stack(parts)


def questions() -> list[Question]:
    """Ask for the gradient of a batch, and for the mean of those of its halves."""
    x, labels = (each[0] for each in examples())
    random = np.random.default_rng(111)
    weights = {"w": random.normal(size=(FEATURES, CLASSES)), "b": random.normal(size=CLASSES)}
    whole = {"x": x.astype(np.float64), "l": labels, **weights}
    halves = {
        "x": x[::2].astype(np.float64),
        "l": labels[::2],
        "u": x[1::2].astype(np.float64),
        "m": labels[1::2],
    }
    mean = "f = 0.5 * cross_entropy(x @ w + b, l) + 0.5 * cross_entropy(u @ w + b, m)"
    return [
        Question("gradient of a batch", "f = cross_entropy(x @ w + b, l)", whole, ("w", "b")),
        Question("mean of its halves", mean, {**halves, **weights}, ("w", "b")),
    ]
