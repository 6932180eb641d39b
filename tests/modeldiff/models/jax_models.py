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


def normed(epsilon: float = 1e-5, momentum: float = 0.1) -> Any:
    """Return a network with a batch norm, which returns its statistics in training."""

    def init(key: Any) -> Any:
        keys = jax.random.split(key)
        kernels = {
            "first": 0.3 * jax.random.normal(keys[0], (7, 6)),
            "last": 0.3 * jax.random.normal(keys[1], (2, 3, 5)),
        }
        norm = {"scale": jnp.ones(6), "bias": jnp.zeros(6)}
        statistics = {"mean": jnp.zeros(6), "var": jnp.ones(6)}
        return {"params": {**kernels, "norm": norm}, "statistics": statistics}

    def apply(variables: Any, x: Any, *, train: bool = False) -> Any:
        own, running = variables["params"], variables["statistics"]
        x = x.astype(jnp.float32) @ own["first"]
        used = {"mean": x.mean(0), "var": x.var(0)} if train else running
        inverse = jax.lax.rsqrt(used["var"] + epsilon) * own["norm"]["scale"]
        x = jax.nn.relu((x - used["mean"]) * inverse + own["norm"]["bias"])
        result = jnp.einsum("bhk,hko->bo", x.reshape(-1, 2, 3), own["last"])
        if not train:
            return result
        updated = {key: (1 - momentum) * running[key] + momentum * used[key] for key in running}
        return result, {"statistics": updated}

    return init, apply


def places(first: int = 0) -> Any:
    """Return the network `Places` of the models of PyTorch."""

    def init(key: Any) -> Any:
        shapes = {"words": (20, 8), "positions": (24, 8), "head": (8, 4)}
        return {name: jax.random.normal(key, shape) for name, shape in shapes.items()} | {
            "bias": jnp.zeros(4)
        }

    def apply(own: Any, x: Any) -> Any:
        rows = own["positions"][jnp.arange(x.shape[1]) + first]
        return (jnp.take(own["words"], x, axis=0) + rows) @ own["head"] + own["bias"]

    return init, apply


def rows(first: int = 0) -> Any:
    """Return a network that adds rows of a table of positions to words."""

    def init(key: Any) -> Any:
        shapes = {"words": (20, 8), "positions": (24, 8), "head": (8, 4)}
        return {name: jax.random.normal(key, shape) for name, shape in shapes.items()}

    def apply(own: Any, x: Any) -> Any:
        positions = own["positions"][first : first + x.shape[1]]
        return (jnp.take(own["words"], x, axis=0) + positions) @ own["head"]

    return init, apply
