"""Batch norm and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def batch_norm(values: Array, scale: Array, offset: Array, epsilon: float = 1e-5) -> Array:
    """Bring each feature to mean 0 and variance 1 over the batch, then scale and shift it.

    Parameters
    ----------
    values
        (examples, features).
    scale, offset
        (features,): what is learned instead of the mean and variance that were taken away.
    """
    return scale * _normal(values, epsilon)[0] + offset


def batch_norm_backward(
    gradient: Array,
    output: Array,
    values: Array,
    scale: Array,
    offset: Array,
    *,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """Differentiate through mean and variance, too: every example depends on all others."""
    del output, offset
    normal, deviation = _normal(values, epsilon)
    by_normal = gradient * scale
    along = by_normal.mean(axis=0) + normal * (by_normal * normal).mean(axis=0)
    return (by_normal - along) / deviation, gradient * normal, gradient


def _normal(values: Array, epsilon: float) -> tuple[Array, Array]:
    deviation = np.sqrt(values.var(axis=0) + epsilon)
    return (values - values.mean(axis=0)) / deviation, deviation


def dropout_mask(shape: tuple[int, ...], rate: float, seed: int) -> Array:
    """Draw factors: 0 with the given rate, else 1 / (1 - rate), so that the mean stays 1."""
    kept = np.random.default_rng(seed).random(shape) >= rate
    return kept / (1 - rate)
