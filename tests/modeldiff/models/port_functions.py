"""What is ported: functions of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def scaled() -> Any:
    """Return a function with a scale of its own after a layer."""

    def init(key: Any) -> Any:
        keys = jax.random.split(key, 2)
        return {
            "a": {"kernel": jax.random.normal(keys[0], (8, 8)), "bias": jnp.zeros(8)},
            "g": jnp.full(8, 0.1),
            "o": {"kernel": jax.random.normal(keys[1], (8, 3)), "bias": jnp.zeros(3)},
        }

    def apply(parameters: Any, x: Any) -> Any:
        a, o = parameters["a"], parameters["o"]
        x = x + parameters["g"] * (x @ a["kernel"] + a["bias"])
        return x @ o["kernel"] + o["bias"]

    return init, apply


def heads(form: str = "tuple") -> Any:
    """Return a function with two results."""

    def init(key: Any) -> Any:
        sizes = {"a": (8, 16), "b": (16, 3), "c": (16, 2)}
        keys = jax.random.split(key, len(sizes))
        return {
            name: {"kernel": jax.random.normal(one, size), "bias": jnp.zeros(size[1])}
            for one, (name, size) in zip(keys, sizes.items(), strict=True)
        }

    def apply(parameters: Any, x: Any) -> Any:
        def layer(name: str, x: Any) -> Any:
            return x @ parameters[name]["kernel"] + parameters[name]["bias"]

        x = jax.nn.relu(layer("a", x))
        first, second = layer("b", x), jax.nn.sigmoid(layer("c", x))
        return {"auxiliary": second, form: first} if form == "logits" else (first, second)

    return init, apply


def complex_numbers() -> Any:
    """Return a function with a complex parameter, of which it takes the magnitude."""

    def init(key: Any) -> Any:
        return {"kernel": jax.random.normal(key, (8, 3), jnp.complex64)}

    def apply(parameters: Any, x: Any) -> Any:
        return jnp.abs(x @ parameters["kernel"])

    return init, apply


def normed() -> Any:
    """Return a function with a norm by the root of the mean square."""

    def init(key: Any) -> Any:
        keys = jax.random.split(key, 2)
        return {
            "a": {"kernel": jax.random.normal(keys[0], (8, 16)), "bias": jnp.zeros(16)},
            "n": jnp.ones(16),
            "o": {"kernel": jax.random.normal(keys[1], (16, 3)), "bias": jnp.zeros(3)},
        }

    def apply(parameters: Any, x: Any) -> Any:
        a, o = parameters["a"], parameters["o"]
        x = x @ a["kernel"] + a["bias"]
        mean = jnp.mean(jnp.square(x), -1, keepdims=True)
        return x * jax.lax.rsqrt(mean + 1e-6) * parameters["n"] @ o["kernel"] + o["bias"]

    return init, apply


def gated_unit(*, joint: bool = False) -> Any:
    """Return a gated linear unit, of two layers or of the halves of one."""
    shapes = {"a": (8, 24), "o": (12, 3)} if joint else {"g": (8, 12), "u": (8, 12), "o": (12, 3)}

    def init(key: Any) -> Any:
        keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
        return {
            name: {"kernel": jax.random.normal(keys[name], shape), "bias": jnp.zeros(shape[1])}
            for name, shape in shapes.items()
        }

    def apply(parameters: Any, x: Any) -> Any:
        def layer(name: str, x: Any) -> Any:
            return x @ parameters[name]["kernel"] + parameters[name]["bias"]

        gate, value = jnp.split(layer("a", x), 2, -1) if joint else (layer("g", x), layer("u", x))
        return layer("o", jax.nn.silu(gate) * value)

    return init, apply
