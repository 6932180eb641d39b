"""Layers of Keras that are two layers elsewhere, and are recorded as those.

A separable convolution is a depthwise one and one of 1 x 1. It imports nothing of Horizont, and
runs wherever Keras does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from .keras_changes import wrap_call


class Separable:
    """A separable convolution as two layers that share its weights."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        rank = len(layer.kernel_size)
        name = f"DepthwiseConv{rank}D", f"Conv{rank}D"
        depthwise, pointwise = (getattr(keras.layers, each) for each in name)
        self.depthwise = depthwise(
            layer.kernel_size,
            strides=layer.strides,
            padding=layer.padding,
            depth_multiplier=layer.depth_multiplier,
            data_format=layer.data_format,
            dilation_rate=layer.dilation_rate,
            use_bias=False,
        )
        self.pointwise = pointwise(
            layer.filters,
            1,
            data_format=layer.data_format,
            use_bias=layer.use_bias,
            activation=layer.activation,
        )
        self.depthwise.kernel, self.pointwise._kernel = (
            layer.depthwise_kernel, layer.pointwise_kernel,
        )  # fmt: skip
        self.depthwise.bias, self.pointwise.bias = None, layer.bias
        self.depthwise.built = self.pointwise.built = True

    def parts(self) -> dict[str, Any]:
        """Return both layers by their names."""
        return {"depthwise": self.depthwise, "pointwise": self.pointwise}

    def wrap(self, _: Callable[..., Any]) -> Callable[..., Any]:
        """Return what takes the place of the layer's own `call`."""
        return lambda value: self.pointwise(self.depthwise(value))


def separable(model: Any) -> list[Separable]:
    """List the separable convolutions of a model."""
    kinds = keras.layers.SeparableConv1D, keras.layers.SeparableConv2D
    return [Separable(each) for each in model._flatten_layers() if isinstance(each, kinds)]


@contextlib.contextmanager
def divided(found: Sequence[Separable]) -> Iterator[None]:
    """Execute separable convolutions as two layers."""
    with contextlib.ExitStack() as stack:
        for each in found:
            stack.callback(wrap_call(each.layer, "call", each.wrap))
        yield
