"""Activation functions and their derivatives, number by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def sigmoid(x: Array) -> Array:
    """Squeeze any number between 0 and 1: 1 / (1 + exp(-x)).

    Written with tanh, which does not overflow.
    """
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def sigmoid_slope(x: Array) -> Array:
    """At most 1/4, at 0; next to nothing where the function is flat."""
    y = sigmoid(x)
    return np.asarray(y * (1 - y))


def tanh_slope(x: Array) -> Array:
    """1 at 0; next to nothing where the function is flat."""
    return np.asarray(1 - np.tanh(x) ** 2)


def relu(x: Array) -> Array:
    """Let what is positive pass."""
    return np.maximum(x, 0.0)


def relu_slope(x: Array) -> Array:
    """1 or 0; at 0, where there is no derivative, 0 as in all three frameworks."""
    return np.where(x > 0, 1.0, 0.0)


def leaky_relu(x: Array, slope: float = 0.125) -> Array:
    """Let a part of what is negative pass, too."""
    return np.where(x > 0, x, slope * x)


def leaky_relu_slope(x: Array, slope: float = 0.125) -> Array:
    """1 or the given slope."""
    return np.where(x > 0, 1.0, slope)


def elu(x: Array) -> Array:
    """Bend what is negative softly towards -1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def elu_slope(x: Array) -> Array:
    """1, or exp(x)."""
    return np.asarray(np.exp(np.minimum(x, 0.0)))


def softplus(x: Array) -> Array:
    """Round the corner of relu: log(1 + exp(x))."""
    return np.asarray(np.logaddexp(0.0, x))


FUNCTIONS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "sigmoid": (sigmoid, sigmoid_slope),
    "tanh": (np.tanh, tanh_slope),
    "relu": (relu, relu_slope),
    "leaky_relu": (leaky_relu, leaky_relu_slope),
    "elu": (elu, elu_slope),
    "softplus": (softplus, sigmoid),
}
