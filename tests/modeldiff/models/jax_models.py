"""A model of JAX: two functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def plain(approximate: bool = True) -> Any:
    """Return the network `plain` of the models of PyTorch."""

    def init(key: Any) -> Any:
        keys = jax.random.split(key, 3)
        return [
            {"w": 0.2 * jax.random.normal(keys[0], (3, 3, 3, 8)), "b": jnp.zeros(8)},
            {"w": 0.1 * jax.random.normal(keys[1], (3, 3, 8, 6)), "b": jnp.zeros(6)},
            {"w": 0.1 * jax.random.normal(keys[2], (96, 5)), "b": jnp.zeros(5)},
        ]

    def conv(layer: Any, x: Any, stride: int) -> Any:
        dimensions = ("NHWC", "HWIO", "NHWC")
        strides = (stride, stride)
        y = jax.lax.conv_general_dilated(
            x, layer["w"], strides, "SAME", dimension_numbers=dimensions
        )
        return y + layer["b"]

    def apply(parameters: Any, x: Any) -> Any:
        first, second, last = parameters
        x = jax.nn.relu(conv(first, x, 2))
        x = jax.nn.gelu(conv(second, x, 1), approximate=approximate)
        window = (1, 2, 2, 1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        return x.reshape(len(x), -1) @ last["w"] + last["b"]

    return init, jax.jit(apply)
