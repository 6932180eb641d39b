"""Tensors of two sides without what their frameworks order, repeat or add otherwise.

One side returns all steps and the other one the last, one computes an example for all of them, one
pads an image explicitly or cuts rows of it later: what is common to both is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from horizont.equivalence.bounds import norm
from horizont.modeldiff.pairing import Pair, flattened
from horizont.modeldiff.recording import Array


def aligned(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two arrays in one shape, if they differ only in steps, examples or joined axes."""
    a, b = same_examples(*same_steps(a, b))
    return a, flattened(b, a)


def same_steps(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two outputs of a recurrent layer, of which one side may return only the last step."""
    if a.ndim == 3 and a[:, -1].shape == b.shape:
        return a[:, -1], b
    if b.ndim == 3 and b[:, -1].shape == a.shape:
        return a, b[:, -1]
    return a, b


def same_examples(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two arrays, of which one side may compute only one example for all of them."""
    if a.shape[1:] == b.shape[1:] and a.ndim and 1 in (len(a), len(b)):
        return tuple(np.broadcast_arrays(a, b))  # type: ignore[return-value]
    return a, b


def unpadded(pair: Pair, a: Array, b: Array) -> tuple[Array, Array, list[list[list[int]]]]:
    """Return inputs of a convolution without zeros that a layer before it has added.

    Returns
    -------
    tuple
        Both inputs, and the zeros of each side before and after each axis of space.
    """
    none = [[[0, 0] for _ in range(2, each.ndim)] for each in (a, b)]
    if pair.a.kind != "convolution" or a.ndim != b.ndim or a.shape == b.shape:
        return a, b, none
    is_a = a.size > b.size
    smaller, larger = (b, a) if is_a else (a, b)
    cuts = explicit_padding(smaller.shape, larger)
    if cuts is None:
        return a, b, none
    inner = larger[(slice(None), slice(None), *(slice(i, n - j) for (i, j), n in cuts))]
    none[0 if is_a else 1] = [list(zeros) for zeros, _ in cuts]
    return (inner, smaller, none) if is_a else (smaller, inner, none)


def cropped(a: Array, b: Array) -> tuple[Array, Array]:
    """Return outputs of which one side may cut rows and columns later, without those."""
    surplus = [one - other for one, other in zip(a.shape, b.shape, strict=False)]
    if a.ndim != b.ndim or any(surplus[:2]) or not any(surplus):
        return a, b
    if min(surplus) < 0:
        return cropped(b, a)[::-1] if max(surplus) <= 0 else (a, b)
    parts = []
    for start in product(*(range(each + 1) for each in surplus[2:])):
        part = a
        for axis, first in enumerate(start, 2):
            part = part.take(range(first, first + b.shape[axis]), axis)
        parts.append(part)
    return min(parts, key=lambda part: norm(part - b)), b


def explicit_padding(
    shape: Sequence[int], padded: Array
) -> list[tuple[tuple[int, int], int]] | None:
    """Return the zeros before and after each axis of space, with the size of the axis."""
    cuts = []
    for axis in range(2, padded.ndim):
        total = padded.shape[axis] - shape[axis]
        slices = np.moveaxis(padded, axis, 0)
        before, after = _zeros(slices, total), _zeros(slices[::-1], total)
        if total < 0 or before + after < total:
            return None
        # Where the content has zeros, too, as many on each side, or one more after it.
        before = before if before + after == total else total // 2
        cuts.append(((before, total - before), padded.shape[axis]))
    return cuts


def without_zeros(a: Array, b: Array) -> tuple[Array, Array, list[list[int]]]:
    """Return two images without the zeros around both, and how many there were on each axis."""
    if a.shape != b.shape:
        return a, b, []
    found, inner = [], [slice(None), slice(None)]
    both = (a != 0) | (b != 0)
    for axis in range(2, a.ndim):
        size, slices = a.shape[axis], np.moveaxis(both, axis, 0)
        limit = size if both.any() else 0
        found.append([_zeros(slices, limit), _zeros(slices[::-1], limit)])
        inner.append(slice(found[-1][0], size - found[-1][1]))
    return a[tuple(inner)], b[tuple(inner)], found


def _zeros(slices: Array, limit: int) -> int:
    """Return how many slices at the start hold only zeros, up to a limit."""
    number = 0
    while number < limit and not slices[number].any():
        number += 1
    return number
