"""All operations that a formula may name, each with its rule for going backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory import activations, images, norms, scores, sequences

Array = NDArray[Any]


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes
    ----------
    forward
        From operands and settings to the output.
    backward
        From the output's gradient, the output, operands and settings to a gradient for each
        operand; None for one that has none, such as labels.
    """

    forward: Callable[..., Any]
    backward: Callable[..., tuple[Any, ...]]


def _of_slope(function: Callable[..., Array], slope: Callable[..., Array]) -> Operation:
    """Make an operation of a function of single numbers and its derivative."""

    def backward(gradient: Array, output: Array, x: Array, **settings: Any) -> tuple[Array]:
        del output
        return (gradient * slope(x, **settings),)

    return Operation(function, backward)


def _matmul_backward(gradient: Array, output: Array, a: Array, b: Array) -> tuple[Array, Array]:
    del output
    return gradient @ b.T, a.T @ gradient


def _mean_backward(gradient: Array, output: Array, x: Array) -> tuple[Array]:
    del output
    return (np.full(x.shape, gradient / x.size),)


OPERATIONS: dict[str, Operation] = {
    "add": Operation(np.add, lambda g, y, a, b: (g, g)),
    "subtract": Operation(np.subtract, lambda g, y, a, b: (g, -g)),
    "multiply": Operation(np.multiply, lambda g, y, a, b: (g * b, g * a)),
    "divide": Operation(np.divide, lambda g, y, a, b: (g / b, -g * a / b**2)),
    "matmul": Operation(np.matmul, _matmul_backward),
    "sum": Operation(np.sum, lambda g, y, x: (np.broadcast_to(g, x.shape),)),
    "mean": Operation(np.mean, _mean_backward),
    "exp": Operation(np.exp, lambda g, y, x: (g * y,)),
    "log": Operation(np.log, lambda g, y, x: (g / x,)),
    "sin": _of_slope(np.sin, np.cos),
    **{name: _of_slope(*pair) for name, pair in activations.FUNCTIONS.items()},
    "softmax": Operation(scores.softmax, scores.softmax_backward),
    "cross_entropy": Operation(scores.cross_entropy, scores.cross_entropy_backward),
    "convolution": Operation(images.convolution, images.convolution_backward),
    "max_pool": Operation(images.max_pool, images.max_pool_backward),
    "average_pool": Operation(images.average_pool, images.average_pool_backward),
    "batch_norm": Operation(norms.batch_norm, norms.batch_norm_backward),
    "recurrent": Operation(sequences.recurrent, sequences.recurrent_backward),
    "lstm": Operation(sequences.lstm, sequences.lstm_backward),
}
