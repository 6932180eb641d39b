"""A model of JAX: two functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def plain(approximate: bool = True) -> Any:
    """Return the network `plain` of the models of PyTorch."""

    def init(key: Any) -> Any:
        keys = jax.random.split(key)
        return [
            {"w": 0.2 * jax.random.normal(keys[0], (3, 3, 3, 6)), "b": jnp.zeros(6)},
            {"w": 0.1 * jax.random.normal(keys[1], (96, 5)), "b": jnp.zeros(5)},
        ]

    def apply(parameters: Any, x: Any) -> Any:
        first, last = parameters
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, first["w"], (2, 2), "SAME", dimension_numbers=layout)
        x = jax.nn.gelu(x + first["b"], approximate=approximate)
        window = (1, 2, 2, 1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        return x.reshape(len(x), -1) @ last["w"] + last["b"]

    return init, jax.jit(apply)
