"""From scores to probabilities and losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def log_softmax(scores: Array) -> Array:
    """Turn the scores of each row into logarithms of probabilities."""
    shifted = scores - scores.max(axis=-1, keepdims=True)  # exp of large scores would overflow
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def softmax(scores: Array) -> Array:
    """Turn the scores of each row into probabilities: exp(score), divided by the row's sum."""
    return np.exp(log_softmax(scores))


def softmax_backward(gradient: Array, output: Array, scores: Array) -> tuple[Array]:
    """Each probability falls when another one rises."""
    del scores
    return (output * (gradient - (gradient * output).sum(axis=-1, keepdims=True)),)


def cross_entropy(scores: Array, labels: Array) -> Array:
    """Average, over the rows, minus the logarithm of the probability of the right class."""
    return np.asarray(-log_softmax(scores)[np.arange(len(labels)), labels].mean())


def cross_entropy_backward(
    gradient: Array, output: Array, scores: Array, labels: Array
) -> tuple[Array, None]:
    """Probability minus one for the right class, probability for the others."""
    del output
    found = softmax(scores)
    found[np.arange(len(labels)), labels] -= 1
    return gradient * found / len(labels), None


def accuracy(scores: Array, labels: Array) -> float:
    """Tell the share of the rows whose largest score is that of the right class."""
    return float(np.mean(scores.argmax(axis=-1) == labels))


def entropy(probabilities: Array) -> Array:
    """Tell how undecided each row of probabilities is, in nats."""
    surprise = -np.log(np.where(probabilities > 0, probabilities, 1.0))
    return np.asarray((probabilities * surprise).sum(axis=-1))


def perplexity(scores: Array, labels: Array) -> float:
    """Tell among how many equally likely words one would hesitate as much."""
    return float(np.exp(cross_entropy(scores, labels)))
