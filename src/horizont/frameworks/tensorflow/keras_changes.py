"""Changes of a model of Keras for one run: settings of layers, their inputs, its output.

Each returns a function that undoes it. It imports nothing of Horizont.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

Undo = Callable[[], object]

#: Settings that a layer shows and that cannot be changed here.
FIXED = (
    "padding mode", "heads", "reset gate", "cropping", "first axis", "initial state",
    "form of a norm",
)  # fmt: skip

_ATTRIBUTES = {
    "epsilon": "epsilon",
    "stride": "strides",
    "dilation": "dilation_rate",
    "groups": "groups",
}


class Namespace:
    """The operations of `functions.py` for tensors of Keras."""

    exp, log1p, tanh, erf, abs = ops.exp, ops.log1p, ops.tanh, ops.erf, ops.abs
    maximum, minimum, softmax, log_softmax = ops.maximum, ops.minimum, ops.softmax, ops.log_softmax
    matmul, reshape, swapaxes, stop = ops.matmul, ops.reshape, ops.swapaxes, ops.stop_gradient

    @staticmethod
    def like(array: Any, x: Any) -> Any:
        """Return an array as a tensor of the type of another one."""
        return ops.convert_to_tensor(array, x.dtype)

    @staticmethod
    def rounded(x: Any, dtype: str) -> Any:
        """Round elements to those of a type with 16 bits."""
        return ops.cast(ops.cast(x, dtype), x.dtype)

    @staticmethod
    def pool(x: Any, kind: str, windows: Any) -> Any:
        """Reduce windows of an image."""
        axes = list(Namespace.spatial(x))
        if not windows.size:
            return (ops.max if kind == "max" else ops.mean)(x, axis=axes)
        around = [(0, 0)] * x.ndim
        around[axes[0] : axes[-1] + 1] = windows.padding
        reach = (windows.size, windows.stride)
        if kind == "max":
            return ops.max_pool(ops.pad(x, around, constant_values=-np.inf), *reach)
        mean = ops.average_pool(ops.pad(x, around), *reach)
        if windows.counted:
            return mean
        return mean / ops.average_pool(ops.pad(ops.ones_like(x), around), *reach)

    @staticmethod
    def expand(gate: Any, x: Any) -> Any:
        """Return a number for each channel with the axes of an image."""
        ones = [1] * x.ndim
        ones[0], ones[-1 if Namespace.spatial(x)[0] == 1 else 1] = x.shape[0], -1
        return ops.reshape(gate, ones)

    @staticmethod
    def spatial(x: Any) -> range:
        """Return the axes of space."""
        is_last = keras.config.image_data_format() == "channels_last"
        return range(1, x.ndim - 1) if is_last else range(2, x.ndim)

    @staticmethod
    def linear(x: Any, matrix: Any, axis: int) -> Any:
        """Multiply an axis by a matrix."""
        moved = ops.matmul(ops.moveaxis(x, axis, -1), Namespace.like(matrix, x))
        return ops.moveaxis(moved, -1, axis)

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images with channels first or last."""
        own = "last" if keras.config.image_data_format() == "channels_last" else "first"
        if layout != own:
            x = ops.moveaxis(x, *((-1, 1) if own == "last" else (1, -1)))
        return ops.reshape(x, (x.shape[0], -1))

    @staticmethod
    def unflatten(x: Any, sizes: list[int], layout: str) -> Any:
        """Return images of sizes ``CHW`` from features with channels first or last."""
        channels, *space = sizes
        own = "last" if keras.config.image_data_format() == "channels_last" else "first"
        shape = sizes if layout == "first" else [*space, channels]
        images = ops.reshape(x, (x.shape[0], *shape))
        if layout == own:
            return images
        return ops.moveaxis(images, *((1, -1) if own == "last" else (-1, 1)))

    @staticmethod
    def take(x: Any, order: list[int], axis: int) -> Any:
        """Return the slices of an axis in an order."""
        return ops.take(x, ops.convert_to_tensor(order, "int32"), axis=axis)


def set_attribute(layer: Any, name: str, value: Any) -> Undo:
    """Set an attribute of a layer."""
    before = getattr(layer, name)
    setattr(layer, name, tuple(value) if isinstance(value, list) else value)
    return lambda: setattr(layer, name, before)


def wrap_call(layer: Any, name: str, wrap: Callable[[Callable[..., Any]], Any]) -> Undo:
    """Wrap a function around a method or an activation of a layer."""
    own = layer.__dict__.get(name)
    setattr(layer, name, wrap(getattr(layer, name)))

    def undo() -> None:
        if own is None:
            del layer.__dict__[name]
        else:
            setattr(layer, name, own)

    return undo


def set_padding(layer: Any, value: list[list[int]]) -> Undo:
    """Pad the input of a convolution with zeros, in the place of its own padding."""
    is_last = layer.data_format == "channels_last"
    around = [(0, 0), *map(tuple, value), (0, 0)]
    if not is_last:
        around = [(0, 0), (0, 0), *map(tuple, value)]

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *args, **kwargs: call(ops.pad(x, around), *args, **kwargs)

    undo = [set_attribute(layer, "padding", "valid"), wrap_call(layer, "call", wrap)]
    return lambda: [each() for each in reversed(undo)]


def set_correction(layer: Any, value: int) -> Undo:
    """Divide the running variance by the number of elements, minus a correction of 0 or 1."""

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def corrected(x: Any, *args: Any, **kwargs: Any) -> Any:
            variance = layer.moving_variance
            rest = ops.copy(variance.value) * layer.momentum
            result = call(x, *args, **kwargs)
            if kwargs.get("training") and value == 1:
                count = 1
                for axis in layer._reduction_axes:
                    count *= x.shape[axis]
                variance.assign(rest + (variance.value - rest) * (count / (count - 1)))
            return result

        return corrected

    return wrap_call(layer, "call", wrap)


def set_padding_index(layer: Any, value: int) -> Undo:
    """Stop the gradient of the row of a table that belongs to an index."""

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def evaluated(x: Any, *args: Any, **kwargs: Any) -> Any:
            result = call(x, *args, **kwargs)
            is_padding = ops.expand_dims(ops.equal(x, value), -1)
            return ops.where(is_padding, ops.stop_gradient(result), result)

        return evaluated

    return wrap_call(layer, "call", wrap)


def set_frozen(variables: dict[str, Any], value: list[str]) -> Undo:
    """Disable the training of some roles, and enable that of the others."""
    before = [(variable, variable.trainable) for variable in variables.values()]
    for role, variable in variables.items():
        if role not in ("mean", "variance"):
            variable.trainable = role not in value

    def thaw() -> None:
        for variable, was in before:
            variable.trainable = was

    return thaw


def set_scale(layer: Any, value: float) -> Undo:
    """Multiply the products of queries and keys by another factor."""
    scale = ops.convert_to_tensor(value, layer.compute_dtype)
    return set_attribute(layer, "_inverse_sqrt_key_dim", scale)


def set_activation(cell: Any, name: str, value: str) -> Undo:
    """Set a function of a recurrent layer by its name."""
    return set_attribute(cell, name, keras.activations.get(value))


def set_mask(layer: Any, value: str) -> Undo:
    """Call attention with a causal mask, or without one."""

    def wrap(call: Any) -> Any:
        def masked(*args: Any, **kwargs: Any) -> Any:
            mask = {"attention_mask": None, "use_causal_mask": value == "causal"}
            return call(*args, **{**kwargs, **mask})

        return masked

    return wrap_call(layer, "call", wrap)


#: What changes a setting that is not an attribute, from the layer and the value. Whether a norm
#: uses statistics is set without its weights, of which `trainable` decides, too.
_FUNCTIONS: dict[str, Callable[[Any, Any], Undo]] = {
    "padding": lambda entry, value: set_padding(entry.layer, value),
    "padding index": lambda entry, value: set_padding_index(entry.layer, value),
    "variance correction": lambda entry, value: set_correction(entry.layer, value),
    "statistics": lambda entry, value: set_attribute(
        entry.layer, "_trainable", value == "of the batch"
    ),
    "momentum": lambda entry, value: set_attribute(entry.layer, "momentum", 1.0 - value),
    "scale": lambda entry, value: set_scale(entry.layer, value),
    "frozen": lambda entry, value: set_frozen(entry.variables, value),
    "biases": lambda entry, value: set_attribute(entry, "equal_variables", {"bias": value}),
    "activation": lambda entry, value: set_activation(entry.layer.cell, "activation", value),
    "gates": lambda entry, value: set_activation(entry.layer.cell, "recurrent_activation", value),
    "mask": lambda entry, value: set_mask(entry.layer, value),
}


def change(entry: Any, key: str, value: Any) -> Undo:
    """Change a setting of a layer."""
    if key in _FUNCTIONS:
        return _FUNCTIONS[key](entry, value)
    return set_attribute(entry.layer, _ATTRIBUTES[key], value)


def no_dropout(model: Any) -> list[Undo]:
    """Disable dropout, whose random numbers no other framework draws."""
    return [set_attribute(layer, name, 0.0) for layer, name in _dropouts(model)]


def facts(model: Any, entries: Sequence[Any]) -> dict[str, Any]:
    """Return rates of dropout, in the order of definition, and norms that add one to a weight."""
    rates = [rate for layer, name in _dropouts(model) if (rate := getattr(layer, name))]
    return {"dropout": rates, "plus one": [entry.name for entry in entries if entry.offset]}


@contextlib.contextmanager
def drawing(model: Any) -> Iterator[list[float]]:
    """Yield a list that has, after the context, the rates of dropout that drew random numbers."""
    seeded = [
        (getattr(layer, name), seed.state)
        for layer, name in _dropouts(model)
        if getattr(layer, name) and (seed := getattr(layer, "seed_generator", None))
    ]
    before = [np.array(state) for _, state in seeded]
    rates: list[float] = []
    yield rates
    for (rate, state), old in zip(seeded, before, strict=True):
        rates += [] if np.array_equal(state, old) else [rate]


def _dropouts(model: Any) -> Iterator[tuple[Any, str]]:
    """Yield the layers with dropout, and the attribute that has its rate."""
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.MultiHeadAttention):
            yield layer, "_dropout"
        for name in ("rate", "dropout", "recurrent_dropout"):
            is_number = isinstance(getattr(layer, name, None), float)
            if is_number and isinstance(layer, _WITH_DROPOUT):
                yield layer, name


_WITH_DROPOUT = (
    keras.layers.Dropout, keras.layers.SpatialDropout1D, keras.layers.SpatialDropout2D,
    keras.layers.GaussianDropout, keras.layers.LSTMCell, keras.layers.GRUCell,
    keras.layers.SimpleRNNCell,
)  # fmt: skip
