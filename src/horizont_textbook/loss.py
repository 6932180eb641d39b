"""The loss of a classifier and its gradients, also in processes of the frameworks.

Nothing else of the textbook's own mathematics is needed there, where only NumPy is installed.
"""

from __future__ import annotations

try:
    import autograd.numpy as np
except ImportError:  # the environment of a framework: nothing differentiates these functions
    import numpy as np

from horizont_textbook import Array


def log_softmax(scores: Array) -> Array:
    """Return the logarithms of the probabilities that softmax makes of each row of scores."""
    shifted = scores - np.max(scores, axis=-1, keepdims=True)  # exp of large scores overflows
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def softmax(scores: Array) -> Array:
    """Return a probability for each score: its exponential, divided by the sum of its row."""
    return np.exp(log_softmax(scores))


def cross_entropy(scores: Array, labels: Array) -> Array:
    """Return minus the mean log-probability of the right class."""
    return -np.mean(log_softmax(scores)[np.arange(len(labels)), labels])


def cross_entropy_gradient(scores: Array, labels: Array) -> Array:
    """Return the gradient by the scores: probability minus one for the right class."""
    gradient = softmax(scores)
    gradient[np.arange(len(labels)), labels] -= 1
    return gradient / len(labels)


def gradients_by_hand(
    *, x: Array, labels: Array, W1: Array, b1: Array, W2: Array, b2: Array
) -> dict[str, Array]:
    """Compute the gradients of a network with one hidden layer, a line for each operation."""
    h = np.tanh(x @ W1 + b1)
    p = softmax(h @ W2 + b2)
    by_z = (p - np.eye(len(b2))[labels]) / len(x)  # the mean over the examples
    by_h = by_z @ W2.T
    by_s = by_h * (1 - h**2)  # through tanh
    return {"W1": x.T @ by_s, "b1": by_s.sum(0), "W2": h.T @ by_z, "b2": by_z.sum(0)}
