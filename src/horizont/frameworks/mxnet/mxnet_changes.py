"""Changes of a model of Gluon for one run: settings of layers, their inputs, its output.

Each returns a function that undoes it. It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx

Undo = Callable[[], object]
nd = mx.nd

#: Options of a block for settings that are a number or a tuple.
_OPTIONS = {"epsilon": "eps", "stride": "stride", "dilation": "dilate"}

#: Settings that a layer shows and that cannot be changed here.
FIXED = ("padding mode", "activation", "groups", "form of a norm")

#: Settings of running statistics, which are changed after a run.
OF_STATISTICS = ("momentum", "variance correction")

#: Less than every number that a network computes, in either floating-point type.
_LOWEST = -3e38


class Namespace:
    """The operations of `functions.py` for arrays of MXNet."""

    exp, log1p, tanh, erf, abs = nd.exp, nd.log1p, nd.tanh, nd.erf, nd.abs
    maximum, minimum = nd.maximum, nd.minimum
    softmax, log_softmax = nd.softmax, nd.log_softmax
    matmul, reshape, swapaxes, stop = nd.linalg.gemm2, nd.reshape, nd.swapaxes, nd.BlockGrad

    @staticmethod
    def like(array: Any, x: Any) -> Any:
        """Return an array as a tensor of the type of another one."""
        return nd.array(array, dtype=x.dtype)

    @staticmethod
    def rounded(x: Any, dtype: str) -> Any:
        """Round elements to those of a type with 16 bits."""
        return nd.cast(nd.cast(x, dtype), x.dtype)

    @staticmethod
    def pool(x: Any, kind: str, windows: Any) -> Any:
        """Reduce windows of an image."""
        if not windows.size:
            return (nd.max if kind == "max" else nd.mean)(x, axis=tuple(range(2, x.ndim)))
        options = {"kernel": (windows.size,) * 2, "stride": (windows.stride,) * 2}

        def reduced(image: Any, outside: float) -> Any:
            name = "max" if kind == "max" else "avg"
            return nd.Pooling(padded(image, windows.padding, outside), pool_type=name, **options)

        if kind == "max":
            return reduced(x, _LOWEST)
        mean = reduced(x, 0.0)
        return mean if windows.counted else mean / reduced(nd.ones_like(x), 0.0)

    @staticmethod
    def expand(gate: Any, x: Any) -> Any:
        """Return a number for each channel of an image, in its shape."""
        return nd.broadcast_like(gate.reshape((*gate.shape[:2], *(1 for _ in x.shape[2:]))), x)

    @staticmethod
    def spatial(x: Any) -> range:
        """Return the axes of space."""
        return range(2, x.ndim)

    @staticmethod
    def linear(x: Any, matrix: Any, axis: int) -> Any:
        """Multiply an axis by a matrix."""
        return nd.moveaxis(nd.dot(nd.moveaxis(x, axis, -1), Namespace.like(matrix, x)), -1, axis)

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images with channels first or last."""
        return nd.flatten(nd.moveaxis(x, 1, -1) if layout == "last" else x)

    @staticmethod
    def unflatten(x: Any, sizes: list[int], layout: str) -> Any:
        """Return images of sizes ``CHW`` from features with channels first or last."""
        channels, *space = sizes
        if layout == "last":
            return nd.moveaxis(x.reshape((len(x), *space, channels)), -1, 1)
        return x.reshape((len(x), *sizes))

    @staticmethod
    def take(x: Any, order: list[int], axis: int) -> Any:
        """Return the slices of an axis in an order."""
        return nd.take(x, nd.array(order, dtype="int32"), axis=axis)


def padded(x: Any, padding: Any, outside: float = 0.0) -> Any:
    """Return an image with a number before and after its axes of space."""
    if not any(size for pair in padding for size in pair):
        return x
    widths = (0, 0, 0, 0, *(size for pair in padding for size in pair))
    return nd.pad(x, mode="constant", pad_width=widths, constant_value=outside)


def set_option(block: Any, name: str, value: Any) -> Undo:
    """Set an option with which a block calls its operator."""
    before = block._kwargs[name]
    block._kwargs[name] = tuple(value) if isinstance(value, list) else value
    return lambda: block._kwargs.__setitem__(name, before)


def set_attribute(owner: Any, name: str, value: Any) -> Undo:
    """Set an attribute."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)


def wrap_forward(block: Any, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:
    """Wrap a function around the forward pass of a block."""
    own = block.__dict__.get("forward")
    block.__dict__["forward"] = wrap(block.forward)

    def undo() -> None:
        if own is None:
            del block.__dict__["forward"]
        else:
            block.__dict__["forward"] = own

    return undo


def set_padding(block: Any, value: list[list[int]]) -> Undo:
    """Pad the input of a convolution with zeros, in the place of its own padding."""

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *args, **kwargs: call(padded(x, value), *args, **kwargs)

    undo = [set_option(block, "pad", tuple(0 for _ in value)), wrap_forward(block, wrap)]
    return lambda: [each() for each in reversed(undo)]


def set_padding_index(block: Any, value: int) -> Undo:
    """Stop the gradient of the row of a table that belongs to an index."""

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def evaluated(x: Any, *args: Any, **kwargs: Any) -> Any:
            result = call(x, *args, **kwargs)
            is_padding = nd.expand_dims(x == value, axis=-1).astype(result.dtype)
            stopped = nd.broadcast_mul(nd.BlockGrad(result), is_padding)
            return nd.broadcast_mul(result, 1 - is_padding) + stopped

        return evaluated

    return wrap_forward(block, wrap)


def set_untrained(parameters: dict[str, tuple[Any, ...]], roles: list[str]) -> Undo:
    """Disable the training of some roles, and enable that of the others."""
    every = [(role, each) for role, found in parameters.items() for each in found]
    before = [(each, each.grad_req) for _, each in every]
    for role, each in every:
        if role not in ("mean", "variance"):
            each.grad_req = "null" if role in roles else "write"

    def undo() -> None:
        for each, was in before:
            each.grad_req = was

    return undo


#: What changes a setting that is not an option, from the layer and the value.
_FUNCTIONS: dict[str, Callable[[Any, Any], Undo]] = {
    "padding": lambda entry, value: set_padding(entry.block, value),
    "padding index": lambda entry, value: set_padding_index(entry.block, value),
    "statistics": lambda entry, value: set_option(
        entry.block, "use_global_stats", value == "running"
    ),
    "biases": lambda entry, _: set_attribute(entry.parameters["bias"][-1], "grad_req", "null"),
    "frozen": lambda entry, value: set_untrained(entry.parameters, value),
}


def change(entry: Any, key: str, value: Any) -> Undo:
    """Change a setting of a layer."""
    if key in _FUNCTIONS:
        return _FUNCTIONS[key](entry, value)
    if key == "epsilon" and hasattr(entry.block, "_epsilon"):
        return set_attribute(entry.block, "_epsilon", value)
    return set_option(entry.block, _OPTIONS[key], value)


def no_dropout(blocks: list[Any]) -> list[Undo]:
    """Disable dropout, whose random numbers no other framework draws."""
    undo = []
    for block in blocks:
        if isinstance(block, mx.gluon.nn.Dropout):
            undo.append(set_attribute(block, "_rate", 0))
        elif isinstance(block, mx.gluon.rnn.rnn_layer._RNNLayer):
            undo.append(set_attribute(block, "_dropout", 0))
    return undo
