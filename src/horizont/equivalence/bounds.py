"""Distances of tensors, and the bounds on them: what rounding can explain, and no more.

**Noise** is the distance of a training to reruns of its own that differ in rounding only: the
initial weights are one unit in the last place larger or smaller, or two threads compute instead of
one. Every rerun has the same examples in the same rows, so that no defect that depends on the
order of the rows passes for rounding.

**Float64.** The frameworks compute the same sums in another order, so they must agree to a small
multiple of the rounding unit. A tensor is the result of at most a few thousand additions for each
of its elements and layers; errors of random sign grow with the root of their number, and training
accumulates them from step to step. ``FLOAT64_BOUND`` is three orders of magnitude above what was
measured for the first gradients of the networks of the study (1e-15 to 1e-13) and far below the
effect of any real defect (a learning rate off by one per cent gives 1e-2). In deep networks with
batch norm, rounding errors grow from step to step; there the bound follows the noise.

**Float32.** How fast rounding errors grow depends on the network, so the bound is derived from the
frameworks' own variation. A unit at the kink of its activation, or a tie in a pooling window, can
fall to either side by rounding alone and change a gradient by as much as the part of one example;
a few reruns show that in some frameworks and not in others. So the noise of all frameworks counts
for each pair. The *error*, the distance to the framework's own training in float64, counts up to
``ERROR_CAP``: a library may compute an exponential less accurately than another, in the same way
at every call, which no rerun would show; but a large error may be a defect of float32 only.

**Continuous quantities** in float32. Logits and losses do not jump where a gradient does. Their
bound is a small multiple of the noise, or of the error, that is typical of the frameworks: of the
median, which a single framework with less precise activations does not change. A loss is the
difference of numbers of order one: the smaller it is, the larger is their rounding beside it. In a
batch of equal examples the errors of their losses are equal, too, and do not average out: of images
of one colour, the mean loss of one framework was 24 units in the last place off.

**Reduced precision.** A variant may round the inputs of its float32 products to fewer bits, as
TF32 does to 11. Its bound in float32 is the same multiple of the noise and of the error, the
distance to float64, times the ratio of the two roundings, 2^13. Such a bound is no evidence; that
is in float64, where these variants compute with all bits.

A comparison whose bound is above ``EVIDENCE_BOUND`` could hide a defect: it is *mute*, and no
evidence. No bound exceeds ``MAX_BOUND``, the distance of a tensor from its opposite; what is not
finite exceeds every bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import median_low
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT64_BOUND = 1e-11
NOISE_FACTOR = 10.0
ERROR_CAP = 2e-5
FLOOR_ULPS = 64.0
CONTINUOUS_FACTOR = 4.0
CONTINUOUS_FLOOR_ULPS = 32.0
EVIDENCE_BOUND = 1e-3
MAX_BOUND = 2.0

#: A framework whose float64 noise is so many times that of all others is noisier than they are,
#: as long as theirs is below `QUIET_NOISE`: later, rounding alone may flip a unit in one of them.
NOISE_RATIO = 1e4
QUIET_NOISE = 1e-10

#: Values of float32 tensors that all fit into so many bits were computed in a lower precision.
REDUCED_MANTISSA_BITS = 16
#: Fewer distinct values may do so by chance.
_LEAST_DISTINCT_VALUES = 32

#: The relative spacing of float32 numbers, 2 ** -23.
_FLOAT32_EPSILON = float(np.finfo(np.float32).eps)


def relative_distance(one: NDArray[Any], other: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the Euclidean norm of the difference, relative to that of a reference.

    It is zero for equal tensors, and infinity for different shapes, for numbers that are not
    finite, and for a difference where the reference is zero.
    """
    if one.shape != other.shape:
        return float("inf")
    if np.array_equal(one, other):
        return 0.0 if np.isfinite(one).all() else float("inf")
    difference = norm(one.astype(np.float64, copy=False) - other.astype(np.float64, copy=False))
    scale = norm(reference)
    if not np.isfinite(difference) or not scale > 0:
        return float("inf")
    return difference / scale


def norm(tensor: NDArray[Any]) -> float:
    """Return the Euclidean norm of all elements."""
    return float(np.linalg.norm(tensor.astype(np.float64, copy=False).ravel()))


def float64_bound(noise: Iterable[float]) -> float:
    """Return the bound on the distance of two trainings in float64, from their noise."""
    return min(max(FLOAT64_BOUND, NOISE_FACTOR * _largest(noise)), MAX_BOUND)


def float32_bound(noise: Iterable[float], error: Iterable[float], rounding: float = 1.0) -> float:
    """Return the bound in float32, from the noise of all frameworks and the error of the two.

    The rounding is that of the products of the two, in units of that of float32.
    """
    capped = min(_largest(error), ERROR_CAP)
    bound = NOISE_FACTOR * max(_largest(noise), capped)
    return min(rounding * max(FLOOR_ULPS * _FLOAT32_EPSILON, bound), MAX_BOUND)


def continuous_bound(
    noise: Collection[float],
    error: Collection[float],
    magnitude: float = 1.0,
    rounding: float = 1.0,
) -> float:
    """Return the bound on logits and losses in float32, from noise and error of all frameworks.

    The magnitude is that of the numbers that the quantity is the difference of, in units of the
    quantity itself; at least 1. The rounding is as in `float32_bound`.
    """
    typical_noise, typical_error = (median_low(each) if each else 0.0 for each in (noise, error))
    bound = CONTINUOUS_FACTOR * max(typical_noise, min(typical_error, ERROR_CAP))
    floor = CONTINUOUS_FLOOR_ULPS * _FLOAT32_EPSILON * magnitude
    return min(rounding * max(floor, bound), MAX_BOUND)


def _largest(values: Iterable[float]) -> float:
    """Return the largest finite value: what is not finite is a finding, not noise."""
    return max((value for value in values if np.isfinite(value)), default=0.0)


def noise_limit(others: Collection[float]) -> float:
    """Return the float64 noise up to which a framework is as quiet as the others are."""
    largest = max(others, default=float("inf"))
    if not largest < QUIET_NOISE:
        return float("inf")
    return max(FLOAT64_BOUND, NOISE_RATIO * largest)


def has_reduced_precision(tensor: NDArray[Any]) -> bool:
    """Whether all values of a float32 tensor fit into `REDUCED_MANTISSA_BITS` bits."""
    if tensor.dtype != np.float32:
        return False
    values = tensor[np.isfinite(tensor) & (tensor != 0)]
    patterns = values.view(np.uint32) & np.uint32(0x7FFFFF)
    if np.any(patterns & np.uint32((1 << (24 - REDUCED_MANTISSA_BITS)) - 1)):
        return False
    return len(np.unique(patterns)) >= _LEAST_DISTINCT_VALUES
