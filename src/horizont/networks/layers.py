"""The kinds of layers, as data: what a layer computes, not how a framework does it.

Shapes carry no batch axis: (channels, height, width), (features,), or for texts (time steps,)
and (time steps, features). Weights are laid out as in PyTorch: (out, in, height, width) for a
convolution, (out, in) for a fully connected layer.
Where the frameworks would do different things, the layer says which of them is meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from horizont.errors import UserError

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A step of the network.

    Attributes
    ----------
    name
        Unique in its network; weights are called ``<name>.weight`` and ``<name>.bias``.
    sources
        The layers whose outputs this one receives; left out, it is the layer before.
    """

    name: str
    sources: tuple[str, ...] = ()

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell the shape of the output for inputs of `shapes`; most layers have just one."""
        raise NotImplementedError

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of the weights, by their short names, for an input of `shape`."""
        del shape
        return {}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of what is tracked beside the weights and not learned."""
        del shape
        return {}

    def state_shapes(self) -> dict[str, Shape]:
        """Tell the shapes of what is carried from batch to batch, for one example."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Conv(Layer):
    """A two-dimensional convolution with zero padding, the same on every side."""

    channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    bias: bool = True

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (channels, height, width) of the output."""
        (shape,) = shapes
        sides = (
            _output_size(self, side, self.kernel, self.stride, self.padding) for side in shape[1:]
        )
        return (self.channels, *sides)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of kernel and bias."""
        kernel: dict[str, Shape] = {"weight": (self.channels, shape[0], self.kernel, self.kernel)}
        return {**kernel, "bias": (self.channels,)} if self.bias else kernel


@dataclass(frozen=True, kw_only=True)
class MaxPool(Layer):
    """Max pooling; a window that does not fit is left out.

    Padding is the same on every side and never the largest. The average in place of the
    largest is for the comparator to catch.
    """

    kernel: int
    stride: int
    padding: int = 0
    mode: Literal["max", "average"] = "max"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (channels, height, width) of the output."""
        ((channels, *sides),) = shapes
        return (
            channels,
            *(_output_size(self, side, self.kernel, self.stride, self.padding) for side in sides),
        )


@dataclass(frozen=True, kw_only=True)
class GlobalAveragePool(Layer):
    """The mean of each channel over the image."""

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (features,), one for each channel."""
        return shapes[0][:1]


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """Normalisation of each channel over the batch, then a learned scale and offset.

    While training, mean and variance are those of the batch (the variance is divided by the
    number of values, not by one less). Beside it they are tracked for evaluation: a tracked
    value keeps the share `momentum` of itself and takes the rest from the batch. PyTorch would
    track the variance divided by one less; here it is made to track the same as the others.
    """

    momentum: float = 0.9
    epsilon: float = 1e-5

    @property
    def momentum_float32(self) -> float:
        """The momentum as float32 holds it: MXNet knows no other, so all frameworks take this."""
        return float(np.float32(self.momentum))

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell the shape of the output: that of the input."""
        return shapes[0]

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of scale (called weight) and offset (called bias)."""
        return {"weight": shape[:1], "bias": shape[:1]}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of the tracked mean and variance."""
        return {"mean": shape[:1], "variance": shape[:1]}


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """While training, elements are dropped at random and the others scaled up by 1 / (1 - rate).

    Attributes
    ----------
    fed
        Draw nothing, but multiply by a mask that is given from outside before each step: so
        that all frameworks drop the same elements when they are compared.
    """

    rate: float
    external_mask: bool = False

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell the shape of the output: that of the input."""
        return shapes[0]


@dataclass(frozen=True, kw_only=True)
class Add(Layer):
    """The sum of several inputs of the same shape."""

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell the shape of the output: that of each input."""
        if len(set(shapes)) != 1:
            raise UserError(f"{self.name}.sources", list(shapes), "inputs of one shape")
        return shapes[0]


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """The channels of several inputs, one after the other."""

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (channels, height, width) of the output."""
        if len({shape[1:] for shape in shapes}) != 1:
            raise UserError(f"{self.name}.sources", list(shapes), "images of one size")
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """A function applied to each element."""

    function: Literal["tanh", "relu"]

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell the shape of the output: that of the input."""
        return shapes[0]


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

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (features,)."""
        return (math.prod(shapes[0]),)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """A fully connected layer with bias; in a text the same at each time step."""

    features: int

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (features,), behind the time steps if there are any."""
        return (*shapes[0][:-1], self.features)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of matrix and bias."""
        return {"weight": (self.features, shape[-1]), "bias": (self.features,)}


@dataclass(frozen=True, kw_only=True)
class Embedding(Layer):
    """A row of features for each word, looked up by the word's number."""

    words: int
    features: int

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (time steps, features)."""
        return (*shapes[0], self.features)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shape of the table."""
        del shape
        return {"weight": (self.words, self.features)}


#: The gates of an LSTM, each by its letter: input, forget, cell (the candidate), output.
GATES = "ifco"


@dataclass(frozen=True, kw_only=True)
class LSTM(Layer):
    """A layer of long short-term memory cells that read a text step by step.

    With the input x and the state before, hidden h and cell c, every gate is an affine function
    of x and h; then c' = sigmoid(f) * c + sigmoid(i) * tanh(cell) and h' = sigmoid(o) * tanh(c').
    The state after a batch is where the next batch begins; no gradient flows back through it.
    There is one bias; PyTorch and MXNet would add a second one, which is held at zero here.

    Attributes
    ----------
    gates
        The order in which the gates stand in the rows of the weights. Another order exists for
        the comparator to catch.

    References
    ----------
    Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997; with the
    forget gate of Gers, Schmidhuber and Cummins, Neural Computation 12(10), 2000.
    """

    units: int
    gates: str = GATES

    def output_shape(self, *shapes: Shape) -> Shape:
        """Tell (time steps, units)."""
        return (shapes[0][0], self.units)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Tell the shapes of the matrices for input and hidden state, and of the bias."""
        rows = len(GATES) * self.units
        return {
            "input_weight": (rows, shape[-1]),
            "hidden_weight": (rows, self.units),
            "bias": (rows,),
        }

    def state_shapes(self) -> dict[str, Shape]:
        """Tell the shapes of what is carried from batch to batch, for one example."""
        return {"hidden": (self.units,), "cell": (self.units,)}


def _output_size(layer: Layer, side: int, kernel: int, stride: int, padding: int) -> int:
    """Count the places of a window: floor((side + 2 padding - kernel) / stride) + 1."""
    places = (side + 2 * padding - kernel) // stride + 1
    if places < 1:
        raise UserError(
            f"{layer.name}.kernel", kernel, f"at most {side + 2 * padding} for its input"
        )
    return places
