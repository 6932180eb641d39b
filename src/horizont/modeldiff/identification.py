"""Which function turned one recorded array into another one: its name, and what follows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import scipy.special

from horizont.modeldiff.functions import (
    FUNCTIONS,
    LEAKY,
    RESIZED,
    RESULTS,
    ROUNDINGS,
    SINGLE,
    STEPS,
    Function,
    exact,
    leaky_relu,
    repaired,
)
from horizont.modeldiff.onnx.arrays import NumPyNamespace

#: How many elements show that a function is another one.
_SAMPLE, _FEW, _FEW_CHANNELS = 4096, 64, 4

#: Functions that map a number to one between 0 and 1, or not at all.
GATES = ("none", "sigmoid", "hard sigmoid, slope 1/6", "hard sigmoid, slope 1/5", "tanh")

#: What pooling returns of a window.
_POOLS = ("max", "mean")

#: A factor of a summand is 1, or there is no summand, within rounding.
_FACTOR_BOUND = 1e-9

#: Between 0 and this, ReLU and ReLU6 return what they get.
_SATURATED = 6.0


#: The largest relative difference at which a function is identified in float64, and of an array
#: that was computed in single precision.
IDENTITY_BOUND, _SINGLE_BOUND = 1e-12, 1e-6


class ArrayNamespace(NumPyNamespace):
    """The operations for arrays of NumPy, with the faster error function of SciPy."""

    erf = scipy.special.erf


class Elements(ArrayNamespace):
    """The operations for elements of arrays, which need no expansion."""

    @staticmethod
    def expand(gate: Any, x: Any) -> Any:
        """Return the gate itself."""
        del x
        return gate


def chains(shape: tuple[int, ...], target: tuple[int, ...]) -> list[dict[str, Any]]:
    """List what may turn an output of a shape into an input of another one, see `repaired`."""
    found: list[dict[str, Any]] = [{}] if shape == target else []
    if len(shape) == 2 and len(target) == 4 and shape[1] == np.prod(target[1:]):
        sizes = list(target[1:])
        found += [{"unflatten": layout, "sizes": sizes} for layout in ("first", "last")]
    if len(shape) < 3:
        return found
    if len(shape) == 3 and shape[1] > 1 and target == (shape[0], shape[2]):
        found += [{"steps": reduction} for reduction in STEPS]
    if target == shape[:2]:
        return found + [{"pool": kind, "size": 0} for kind in _POOLS]
    if len(target) == 2 and target[1] == np.prod(shape[1:]):
        found += [{"flatten": layout} for layout in ("first", "last")]
    if len(shape) != 4:
        return found
    if target == (*shape[:2], 1, 1) != shape:
        with_axes = {"unflatten": "first", "sizes": [-1, 1, 1]}  # all channels
        return found + [{"pool": kind, "size": 0, **with_axes} for kind in _POOLS]
    if len(target) == 4 and target[:2] == shape[:2]:
        found += _pools(shape[2:], target[2:])
        larger = target[2] // shape[2]
        if larger > 1 and target[2:] == (shape[2] * larger, shape[3] * larger):
            found += [{"resize": mode, "times larger": larger} for mode in RESIZED]
    for size in (2, 3, 4) if len(target) == 2 else ():
        height, width = (each // size for each in shape[2:])
        if target[1] == shape[1] * height * width > 0:
            layouts = ("first", "last") if height * width > 1 else ("first",)
            pools = _pools(shape[2:], (height, width), (size,))
            found += [{**each, "flatten": layout} for each in pools for layout in layouts]
    return found


def _pools(
    shape: tuple[int, ...], target: tuple[int, ...], sizes: tuple[int, ...] = (2, 3, 4, 5)
) -> list[dict[str, Any]]:
    """List the windows that turn an image of a size into one of another size."""
    found = []
    for size in sizes:
        for stride in range(1, size + 1):
            # How many pixels the windows reach beyond the image; those that do not fit are left.
            beyond = [(n - 1) * stride + size - m for m, n in zip(shape, target, strict=True)]
            if any(not -stride < each < 2 * size for each in beyond):
                continue
            missing = [max(each, 0) for each in beyond]
            # All of it after the image, or half of it, the odd pixel after or before the image.
            for before in ([0, 0], [n // 2 for n in missing], [n - n // 2 for n in missing]):
                padding = [[b, n - b] for b, n in zip(before, missing, strict=True)]
                windows = {"size": size, "stride": stride, "padding": padding}
                means = (True, False) if any(missing) else (True,)
                found.append({"pool": "max", **windows, "counted": True})
                found += [{"pool": "mean", **windows, "counted": each} for each in means]
    return [each for n, each in enumerate(found) if each not in found[:n]]


def _distance(x: Any, y: Any, change: dict[str, Any]) -> float:
    """Return the largest difference between a changed array and another one."""
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(repaired(ArrayNamespace, x, change, {}) - y)))


def identify(
    x: Any, y: Any, bound: float, functions: dict[str, Function] = FUNCTIONS
) -> dict[str, Any] | None:
    """Find the function, with what may follow it, that maps one array to another.

    Parameters
    ----------
    bound
        On the largest difference, relative to the largest element of the result.

    Returns
    -------
    dict or None
        A change for `repaired`, the closest one.
    """
    limit = bound * largest(y)
    found: list[tuple[float, int, dict[str, Any]]] = []
    part, plain_part = _channels(x, y), _elements(x, y)
    applied = {} if part[0] is x else {name: _applied(part[0], name) for name in functions}
    for chain in chains(x.shape, y.shape):
        for name in functions if chain else {**functions, **_leaky_relu(*plain_part)}:
            change = {"function": name, **chain}
            if not chain and name not in RESULTS:
                far = _distance(*plain_part, change) > limit
            else:
                far = bool(applied) and _distance(applied[name], part[1], chain) > limit
            if not far and (distance := _distance(x, y, change)) <= limit:
                found.append((distance, len(found), change))
        if found and not chain:
            break
    return min(found)[2] if found else None


def _leaky_relu(x: Any, y: Any) -> dict[str, Function]:
    """Return the leaky ReLU whose slope maps the smallest number of an array; none if none does."""
    if x.shape != y.shape or not np.issubdtype(x.dtype, np.floating):
        return {}
    place = int(x.argmin())
    slope = float(y.flat[place] / x.flat[place]) if x.flat[place] < 0 else 0.0
    if not 0.0 < slope < 1.0:
        return {}
    near = exact(slope)
    is_single = abs(slope - near) > abs(slope - float(np.float32(near)))
    name = f"{LEAKY}{near:.9g}{SINGLE if is_single else ''}"
    return {name: leaky_relu(name)}


#: A part of an output: its name, the number of the part, and of how many.
Part = tuple[str, int, int]


def output_parts(
    outputs: Mapping[str, Any], features: int, counts: Iterable[int]
) -> Iterator[tuple[Part, Any]]:
    """Yield the equal parts of outputs that have some features, where they have so many parts."""
    for name, output in outputs.items():
        for count in counts:
            if output.shape[-1] == count * features:
                parts = np.split(output, count, axis=-1)
                yield from (((name, number, count), part) for number, part in enumerate(parts))


def largest(y: Any) -> float:
    """Return the largest magnitude in an array."""
    return max(float(np.max(np.abs(y), initial=0.0)), 1e-300)


def _elements(x: Any, y: Any) -> tuple[Any, Any]:
    """Return a few elements of two arrays, which exclude most functions."""
    if x.shape != y.shape:
        return x, y
    step = max(x.size // _SAMPLE, 1)
    return x.reshape(-1)[::step], y.reshape(-1)[::step]


def _channels(x: Any, y: Any) -> tuple[Any, Any]:
    """Return two channels of two images, which exclude most windows."""
    return (x[:1, :2], y[:1, :2]) if x.ndim == y.ndim == 4 else (x, y)


def _applied(x: Any, name: str) -> Any:
    with np.errstate(all="ignore"):
        return {**RESULTS, **FUNCTIONS}[name](ArrayNamespace, x)


def identify_pair(
    x: Any, y: Any, z: Any, bound: float, functions: Collection[str] = tuple(FUNCTIONS)
) -> dict[str, Any] | None:
    """Find the function that maps a sum of two arrays, or a product with a gate, to a third one.

    The gate, ``y``, has one number for each channel. The third array may be a mean or maximum
    over the axes of space, or one step of sequences in the place of all.

    Returns
    -------
    dict or None
        A change for `repaired` without the names of the arrays: ``plus`` or ``times`` is ``y``.
    """
    is_gate = x.ndim > 2 and y.shape != x.shape
    is_gate = is_gate and y.shape[:2] == x.shape[:2] and y.size == np.prod(x.shape[:2])
    is_pooled = x.ndim > 2 and z.shape == x.shape[:2]
    is_reduced = x.ndim == 3 and z.shape == (len(x), x.shape[2]) and not (is_gate or is_pooled)
    is_whole = is_pooled or is_reduced or z.shape == x.shape
    if not is_whole or not (is_gate or y.shape == x.shape):
        return None
    arrays = (x, np.broadcast_to(ArrayNamespace.expand(y, x), x.shape) if is_gate else y, z)
    # A few elements exclude most functions, more of them confirm one.
    if is_pooled:
        follows: list[dict[str, Any]] = [{"pool": kind, "size": 0} for kind in ("mean", "max")]
        space = tuple(range(2, x.ndim))
        parts = [[each[:1, :_FEW_CHANNELS] for each in arrays], arrays]
        factors = _factors(x.mean(axis=space), arrays[1].mean(axis=space), z)
    elif is_reduced:
        follows = [{"steps": reduction} for reduction in STEPS]
        parts = [[each[:1, ..., :_FEW_CHANNELS] for each in arrays], arrays]
        factors = [1.0]
    else:
        follows = [{}]
        steps = [max(z.size // count, 1) for count in (_FEW, _SAMPLE)]
        parts = [[each.reshape(-1)[::step] for each in arrays] for step in steps]
        factors = _factors(*parts[1])
    changes: Iterable[dict[str, Any]] = (
        ({"function": f, "times": "y", "gate": each} for f, each in product(functions, GATES))
        if is_gate
        else ({"plus": "y", "factor": each, "function": f} for each in factors for f in functions)
    )
    limit = bound * largest(z)
    for change, follow in product(changes, follows):
        whole = {**change, **follow}
        if all(_pair_distance(part, whole) <= limit for part in parts):
            return whole
    return None


def _factors(x: Any, y: Any, z: Any) -> list[float]:
    """Return 1, and the factor of the second summand if a sum is followed by nothing or ReLU."""
    found = [1.0]
    for shown in (np.full(z.shape, True), (z > 0) & (z < _SATURATED)):
        length = float(np.dot(y[shown], y[shown]))
        factor = float(np.dot(y[shown], (z - x)[shown])) / length if length > 0 else 1.0
        if min(abs(factor - 1.0), abs(factor)) > _FACTOR_BOUND:
            found.append(float(f"{factor:.12g}"))
    return found


def _pair_distance(arrays: Sequence[Any], change: dict[str, Any]) -> float:
    """Return the largest difference between a function of two arrays and the third one."""
    x, y, z = arrays
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(repaired(Elements, x, change, {"y": y}) - z)))


def is_single(array: Any) -> bool:
    """Whether an array in float64 has only numbers of float32, but not only of 16 bits."""
    if array.dtype != np.float64:
        return False
    for part in (array.ravel()[:_FEW], array):  # a few numbers exclude most arrays
        if not np.array_equal(part, part.astype(np.float32)):
            return False
    return not any(
        np.array_equal(array, repaired(ArrayNamespace, array, {"function": name}, {}))
        for name in ROUNDINGS
    )


def is_copy(array: Any, given: Iterable[Any]) -> bool:
    """Whether an array has only numbers of given ones, zeros, and their products with powers of 2.

    Rows of a table have the precision of its weights, whatever computes with them.
    """
    numbers = np.unique(_significands(array.ravel()[:: max(array.size // _FEW, 1)]))
    missing = numbers[numbers > 0]
    for each in given:
        if not missing.size:
            break
        there = _significands(each)
        places = np.searchsorted(missing, there).clip(max=missing.size - 1)
        missing = np.delete(missing, places[missing[places] == there])
    return not missing.size


def _significands(array: Any) -> Any:
    """Return the significands of numbers, from one half to 1; 0 of zeros."""
    return np.abs(np.frexp(np.asarray(array, np.float64).ravel())[0])


def identity_bound(array: Any) -> float:
    """Return the relative difference at which the function that computed an array is identified."""
    return _SINGLE_BOUND if is_single(array) else IDENTITY_BOUND
