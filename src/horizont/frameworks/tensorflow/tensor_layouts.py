"""Layouts of TensorFlow and the canonical ones, which have channels first.

It imports nothing but NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any
Transform = Callable[[Array], Array]


def permuted(axes: tuple[int, ...]) -> tuple[Transform, Transform]:
    """Return how to reorder the axes of an array, and back."""
    return (lambda x: x.transpose(axes)), (lambda x: x.transpose(np.argsort(axes)))


def depthwise(shape: tuple[int, ...]) -> tuple[Transform, Transform]:
    """Return how to convert the kernel of a depthwise convolution, which has a shape, and back."""
    spatial, channels, multiplier = shape[:-2], shape[-2], shape[-1]
    axes = (len(shape) - 2, len(shape) - 1, *range(len(spatial)))

    def forward(x: Array) -> Array:
        return x.transpose(axes).reshape(channels * multiplier, 1, *spatial)

    def back(x: Array) -> Array:
        return x.reshape(channels, multiplier, *spatial).transpose(np.argsort(axes))

    return forward, back


def same_padding(
    sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[list[int]]:
    """Return the zeros before and after each axis of space, of a padding `SAME`."""
    found = []
    for size, kernel, step, gap in zip(sizes, window, stride, dilation, strict=False):
        reach = (math.ceil(size / step) - 1) * step + (kernel - 1) * gap + 1
        total = max(reach - size, 0)
        found.append([total // 2, total - total // 2])
    return found


def channels_first(value: Any) -> Any:
    """Move the channels of an image, or of a signal, before the axes of space."""
    return np.moveaxis(value, -1, 1) if value.ndim > 2 else value


def channels_last(value: Any) -> Any:
    """Move the channels back after the axes of space."""
    return np.moveaxis(value, 1, -1) if value.ndim > 2 else value
