"""The operations of `functions.py` for arrays of NumPy.

It imports nothing of Horizont.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, [float])


class NumPyNamespace:
    """The operations for arrays of NumPy."""

    exp, log1p, tanh, maximum = np.exp, np.log1p, np.tanh, np.maximum
    minimum, abs, take = np.minimum, np.abs, np.take
    matmul, reshape, swapaxes, stop = np.matmul, np.reshape, np.swapaxes, np.asarray

    @staticmethod
    def erf(x: Any) -> Any:
        """Return the error function of each element."""
        return _erf(x).astype(x.dtype)

    @staticmethod
    def like(array: Any, x: Any) -> Any:
        """Return an array as a tensor of the type of another one."""
        return array.astype(x.dtype)

    @staticmethod
    def rounded(x: Any, dtype: str) -> Any:
        """Round elements to those of a type with 16 bits, as frameworks do: by way of 32."""
        with np.errstate(over="ignore"):
            single = x.astype(np.float32)
            half = single.astype(np.float16)
        if dtype == "float16":
            return half.astype(x.dtype)
        # bfloat16 is the first half of float32; what lies in the middle becomes even.
        bits = single.view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(x.dtype)

    @staticmethod
    def pool(x: Any, kind: str, windows: Any) -> Any:
        """Reduce windows of an image, ``NCHW``."""
        reduce = np.max if kind == "max" else np.mean
        size, stride = windows.size, windows.stride
        if not size:
            return reduce(x, axis=tuple(range(2, x.ndim)))

        def reduced(image: Any, outside: float) -> Any:
            around = [(0, 0), (0, 0), *windows.padding]
            padded = np.pad(image, around, constant_values=outside)
            views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
            return reduce(views[:, :, ::stride, ::stride], axis=(4, 5))

        if kind == "max":
            return reduced(x, -np.inf)
        return reduced(x, 0.0) / (1.0 if windows.counted else reduced(np.ones_like(x), 0.0))

    @staticmethod
    def expand(gate: Any, x: Any) -> Any:
        """Return a number for each channel with the axes of an image, ``NCHW``."""
        return gate.reshape(*gate.shape[:2], *(1 for _ in x.shape[2:]))

    @staticmethod
    def spatial(x: Any) -> range:
        """Return the axes of space."""
        return range(2, x.ndim)

    @staticmethod
    def linear(x: Any, matrix: Any, axis: int) -> Any:
        """Multiply an axis by a matrix."""
        return np.moveaxis(np.moveaxis(x, axis, -1) @ matrix, -1, axis)

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images, ``NCHW``, with channels first or last."""
        return (np.moveaxis(x, 1, -1) if layout == "last" else x).reshape(len(x), -1)

    @staticmethod
    def unflatten(x: Any, sizes: list[int], layout: str) -> Any:
        """Return images of sizes ``CHW`` from features with channels first or last."""
        channels, *space = sizes
        if layout == "last":
            return np.moveaxis(x.reshape(len(x), *space, channels), -1, 1)
        return x.reshape(len(x), *sizes)

    @staticmethod
    def softmax(x: Any) -> Any:
        """Return the exponentials over the last axis, divided by their sum."""
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    @staticmethod
    def log_softmax(x: Any) -> Any:
        """Return the logarithm of `softmax`."""
        return np.log(NumPyNamespace.softmax(x))
