"""The operations by which a model of JAX is changed for one run. It imports nothing of Horizont."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


class Namespace:
    """The operations of `functions.py` for arrays of JAX."""

    exp, log1p, tanh, erf, abs = jnp.exp, jnp.log1p, jnp.tanh, jax.scipy.special.erf, jnp.abs
    maximum, minimum = jnp.maximum, jnp.minimum
    softmax, log_softmax = jax.nn.softmax, jax.nn.log_softmax
    matmul, reshape, swapaxes = jnp.matmul, jnp.reshape, jnp.swapaxes
    stop = jax.lax.stop_gradient

    @staticmethod
    def like(array: Any, x: Any) -> Any:
        """Return an array as a tensor of the type of another one."""
        return jnp.asarray(array, x.dtype)

    @staticmethod
    def rounded(x: Any, dtype: str) -> Any:
        """Round elements to those of a type with 16 bits."""
        return x.astype(dtype).astype(x.dtype)

    @staticmethod
    def pool(x: Any, kind: str, windows: Any) -> Any:
        """Reduce windows of an image."""
        if not windows.size:
            reduce = jnp.max if kind == "max" else jnp.mean
            return reduce(x, axis=tuple(Namespace.spatial(x)))

        def reduced(image: Any, start: float, operation: Any) -> Any:
            sizes, strides = ((1, each, each, 1) for each in (windows.size, windows.stride))
            around = ((0, 0), *windows.padding, (0, 0))
            return jax.lax.reduce_window(image, start, operation, sizes, strides, around)

        if kind == "max":
            return reduced(x, -jnp.inf, jax.lax.max)
        counts = windows.size**2 if windows.counted else reduced(jnp.ones_like(x), 0.0, jax.lax.add)
        return reduced(x, 0.0, jax.lax.add) / counts

    @staticmethod
    def expand(gate: Any, x: Any) -> Any:
        """Return a number for each channel with the axes of an image."""
        return gate.reshape(len(gate), *(1 for _ in Namespace.spatial(x)), -1)

    @staticmethod
    def spatial(x: Any) -> range:
        """Return the axes of space."""
        return range(1, x.ndim - 1)

    @staticmethod
    def linear(x: Any, matrix: Any, axis: int) -> Any:
        """Multiply an axis by a matrix."""
        return jnp.moveaxis(jnp.moveaxis(x, axis, -1) @ Namespace.like(matrix, x), -1, axis)

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images with channels first or last."""
        return (jnp.moveaxis(x, -1, 1) if layout == "first" else x).reshape(len(x), -1)

    @staticmethod
    def unflatten(x: Any, sizes: list[int], layout: str) -> Any:
        """Return images of sizes ``CHW`` from features with channels first or last."""
        channels, *space = sizes
        if layout == "first":
            return jnp.moveaxis(x.reshape(len(x), *sizes), 1, -1)
        return x.reshape(len(x), *space, channels)

    @staticmethod
    def take(x: Any, order: list[int], axis: int) -> Any:
        """Return the slices of an axis in an order."""
        return jnp.take(x, jnp.asarray(order), axis=axis)
