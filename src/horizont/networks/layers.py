"""The kinds of layers, as data: what a layer computes, not how a framework does it.

Shapes carry no batch axis: (channels, height, width) or (features,). Weights are laid out as
in PyTorch: (out, in, height, width) for a convolution, (out, in) for a fully connected layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from horizont.errors import UserError

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A step of the network.

    Attributes
    ----------
    name
        Unique in its network; weights are called ``<name>.weight`` and ``<name>.bias``.
    """

    name: str

    def output_shape(self, shape: Shape) -> Shape:
        """Tell the shape of the output for an input of `shape`."""
        raise NotImplementedError

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of the weights, by their short names, for an input of `shape`."""
        del shape
        return {}


@dataclass(frozen=True, kw_only=True)
class Conv(Layer):
    """A two-dimensional convolution with bias and zero padding, the same on every side."""

    channels: int
    kernel: int
    stride: int = 1
    padding: int = 0

    def output_shape(self, shape: Shape) -> Shape:
        """Tell (channels, height, width) of the output."""
        sides = (_window(self, side, self.kernel, self.stride, self.padding) for side in shape[1:])
        return (self.channels, *sides)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of kernel and bias."""
        return {
            "weight": (self.channels, shape[0], self.kernel, self.kernel),
            "bias": (self.channels,),
        }


@dataclass(frozen=True, kw_only=True)
class MaxPool(Layer):
    """Max pooling without padding; a window that does not fit is left out."""

    kernel: int
    stride: int

    def output_shape(self, shape: Shape) -> Shape:
        """Tell (channels, height, width) of the output."""
        return (shape[0], *(_window(self, side, self.kernel, self.stride, 0) for side in shape[1:]))


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """A function applied to each element."""

    function: Literal["tanh", "relu"]

    def output_shape(self, shape: Shape) -> Shape:
        """Tell the shape of the output: that of the input."""
        return shape


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """All axes in one.

    Attributes
    ----------
    order
        Which axis varies slowest. ``chw`` everywhere; ``hwc`` exists for the comparator, which
        must catch a framework that flattens in its own layout.
    """

    order: Literal["chw", "hwc"] = "chw"

    def output_shape(self, shape: Shape) -> Shape:
        """Tell (features,)."""
        features = 1
        for side in shape:
            features *= side
        return (features,)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """A fully connected layer with bias."""

    features: int

    def output_shape(self, shape: Shape) -> Shape:
        """Tell (features,)."""
        return (self.features,)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of matrix and bias."""
        return {"weight": (self.features, shape[0]), "bias": (self.features,)}


def _window(layer: Layer, side: int, kernel: int, stride: int, padding: int) -> int:
    """Count the places of a window: floor((side + 2 padding - kernel) / stride) + 1."""
    places = (side + 2 * padding - kernel) // stride + 1
    if places < 1:
        raise UserError(
            f"{layer.name}.kernel", kernel, f"at most {side + 2 * padding} for its input"
        )
    return places
