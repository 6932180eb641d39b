"""Models of JAX: two functions, or a module of Flax, by `linen` or `nnx`; without their dropout.

What a callable returns becomes a function of variables and a batch, in evaluation and, if it
distinguishes the two, in training. It imports nothing of Horizont, and Flax only if the model has.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from .jax_operations import PARAMETERS

#: Parameters by which models distinguish training, and their values in training.
_MODES = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}

#: The collection of the running statistics of a module of `nnx`.
_STATISTICS = "statistics"


@dataclass
class Model:
    """A model as functions of its variables.

    Attributes
    ----------
    evaluate
        It returns the result.
    train
        It returns the result and the variables that training updates, a part of the tree; None
        if the model does not distinguish training from evaluation.
    """

    variables: Any
    evaluate: Callable[[Any, Any], Any]
    train: Callable[[Any, Any], tuple[Any, Any]] | None = None


def opened(made: Any, batch: Any) -> tuple[Model, list[Any]]:
    """Return the model that a callable has returned, and what else it has returned."""
    parts = made if isinstance(made, tuple) else (made,)
    linen, nnx = (sys.modules.get(f"flax.{name}") for name in ("linen", "nnx"))
    if parts and linen is not None and isinstance(parts[0], linen.Module):
        return _of_linen(parts[0], batch), list(parts[1:])
    if parts and nnx is not None and isinstance(parts[0], nnx.Module):
        return _of_nnx(parts[0], nnx), list(parts[1:])
    if len(parts) < 2 or not all(map(callable, parts[:2])):
        raise TypeError(
            "the callable has to return two functions, init and apply, or a module of Flax"
        )
    init, apply, *others = parts
    key = jax.random.key(0)
    has_batch = len(inspect.signature(init).parameters) > 1
    return _of_functions(init(key, batch) if has_batch else init(key), apply), others


def _modes(function: Any) -> tuple[dict[str, bool], dict[str, bool]]:
    """Return the arguments of a function in evaluation and in training."""
    try:
        names = set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = set()
    training = {name: value for name, value in _MODES.items() if name in names}
    return {name: not value for name, value in training.items()}, training


def _of_functions(variables: Any, apply: Any) -> Model:
    evaluation, training = _modes(apply)

    def train(own: Any, batch: Any) -> tuple[Any, Any]:
        returned = apply(own, batch, **training)
        if isinstance(returned, tuple) and len(returned) == 2 and isinstance(own, Mapping):
            result, updated = returned
            if isinstance(updated, Mapping) and {*updated} <= {*own}:
                return result, updated
        return returned, {}

    return Model(
        variables,
        lambda own, batch: apply(own, batch, **evaluation),
        train if training else None,
    )


def _of_linen(module: Any, batch: Any) -> Model:
    evaluation, training = _modes(type(module).__call__)
    initialize = jax.jit(lambda key, x: module.init(key, x, **evaluation))
    variables = initialize(jax.random.key(0), batch)
    updated = sorted({*variables} - {PARAMETERS})

    def train(own: Any, x: Any) -> tuple[Any, Any]:
        return module.apply(own, x, **training, mutable=updated)

    return Model(
        variables,
        lambda own, x: module.apply(own, x, **evaluation),
        train if training and updated else None,
    )


def _of_nnx(module: Any, nnx: Any) -> Model:
    evaluation, training = _modes(type(module).__call__)
    updates = bool(jax.tree.leaves(nnx.state(module, nnx.BatchStat)))

    def parts() -> Any:
        return nnx.split(module, nnx.Param, nnx.BatchStat, ...)

    module.train()  # a module is not changed while a function of it is traced
    in_training = parts()
    module.eval()
    in_evaluation = parts()

    def applied(own: Any, x: Any, is_training: bool) -> tuple[Any, Any]:
        graph, *states, others = in_training if is_training else in_evaluation
        parameters, statistics = (jax.tree.map(lambda each: each, state) for state in states)
        nnx.replace_by_pure_dict(parameters, own[PARAMETERS])
        nnx.replace_by_pure_dict(statistics, own.get(_STATISTICS, {}))
        merged = nnx.merge(graph, parameters, statistics, others)
        result = merged(x, **(training if is_training else evaluation))
        return result, {_STATISTICS: nnx.to_pure_dict(nnx.state(merged, nnx.BatchStat))}

    _, parameters, statistics, _ = in_evaluation
    variables = {PARAMETERS: nnx.to_pure_dict(parameters)}
    if updates:
        variables[_STATISTICS] = nnx.to_pure_dict(statistics)
    return Model(
        variables,
        lambda own, x: applied(own, x, is_training=False)[0],
        (lambda own, x: applied(own, x, is_training=True)) if updates else None,
    )


@contextlib.contextmanager
def without_dropout() -> Iterator[list[float]]:
    """Disable dropout of Flax, and yield the rates of the layers that are called meanwhile."""
    rates: list[float] = []
    found = [sys.modules.get(f"flax.{name}") for name in ("linen", "nnx")]
    layers = [module.Dropout for module in found if module is not None]
    before = [layer.__call__ for layer in layers]

    def identity(layer: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        if layer.rate:
            rates.append(float(layer.rate))
        return inputs

    for layer in layers:
        layer.__call__ = identity
    try:
        yield rates
    finally:
        for layer, function in zip(layers, before, strict=True):
            layer.__call__ = function


@contextlib.contextmanager
def single_precision_as(dtype: str) -> Iterator[None]:
    """Trace what a model converts to single precision, the usual one, in another type."""
    convert, before = jax.lax.convert_element_type_p, Primitive.bind

    def bind(primitive: Any, *operands: Any, **params: Any) -> Any:
        types = [str(getattr(each, "dtype", "")) for each in operands]
        if primitive is convert and types == ["float64"] and params["new_dtype"] == jnp.float32:
            return operands[0]
        is_mixed = {"float32", "float64"} <= {*types}
        if is_mixed and not any("jaxpr" in name or name == "branches" for name in params):
            operands = tuple(
                jnp.asarray(each, jnp.float64) if own == "float32" else each
                for each, own in zip(operands, types, strict=True)
            )
        return before(primitive, *operands, **params)

    if dtype == "float64":
        Primitive.bind = bind
    try:
        yield
    finally:
        Primitive.bind = before
