"""How far two tensors are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def relative_distance(one: NDArray[Any], other: NDArray[Any], reference: NDArray[Any]) -> float:
    """Tell the Euclidean norm of the difference over that of a reference.

    Returns
    -------
    float
        Zero for equal tensors; infinity for different shapes, numbers that are not finite, and
        a difference where the reference is zero.
    """
    if one.shape != other.shape:
        return float("inf")
    difference = np.linalg.norm((_exact(one) - _exact(other)).ravel())
    scale = np.linalg.norm(_exact(reference).ravel())
    if difference == 0:
        return 0.0
    if not np.isfinite(difference) or scale == 0:
        return float("inf")
    return float(difference / scale)


def _exact(tensor: NDArray[Any]) -> NDArray[np.float64]:
    return tensor.astype(np.float64, copy=False)
