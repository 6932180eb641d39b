"""The types of layers, as data: what a layer computes, not how a framework computes it.

Shapes have no batch axis: (channels, height, width), (features,), or for text (time steps,) and
(time steps, features). Weights have the layout of PyTorch: (out, in, height, width) for a
convolution, (out, in) for a fully connected layer.
Where the defaults of the frameworks differ, the layer defines the computation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np

from horizont.errors import UserError

Shape = tuple[int, ...]


class InputTooSmall(UserError):
    """An input that is smaller than the kernel of a layer."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer of a network.

    Attributes
    ----------
    name
        Unique in its network; weights are named ``<name>.weight`` and ``<name>.bias``.
    sources
        The layers whose outputs are the inputs of this one; by default the previous layer.
    """

    name: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, kind in get_type_hints(type(self)).items():
            value = getattr(self, field)
            if get_origin(kind) is Literal and value not in get_args(kind):
                raise UserError(f"{self.name}.{field}", value, get_args(kind))
            least = 0 if field == "padding" else 1
            if kind is int and not (isinstance(value, int) and value >= least):
                raise UserError(f"{self.name}.{field}", value, f"an integer of at least {least}")

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the shape of the output for inputs of `shapes`; by default that of the input."""
        return shapes[0]

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of the weights by name, for an input of `shape`."""
        return {}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of running statistics by name, for an input of `shape`."""
        return {}

    def state_shapes(self) -> dict[str, Shape]:
        """Return the shapes of the recurrent state of one example, by name."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Conv(Layer):
    """A two-dimensional convolution with the same zero padding on every side."""

    channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    bias: bool = True

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (channels, height, width)."""
        return (self.channels, *_output_sides(self, shapes[0]))

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of kernel and bias."""
        shapes: dict[str, Shape] = {"weight": (self.channels, shape[0], self.kernel, self.kernel)}
        return {**shapes, "bias": (self.channels,)} if self.bias else shapes


@dataclass(frozen=True, kw_only=True)
class MaxPool(Layer):
    """Max pooling; incomplete windows at the edge are dropped.

    Padding is the same on every side and never the maximum. The average in place of the maximum
    is a mutation that the comparator must detect.
    """

    kernel: int
    stride: int
    padding: int = 0
    mode: Literal["max", "average"] = "max"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (channels, height, width)."""
        return (shapes[0][0], *_output_sides(self, shapes[0]))


@dataclass(frozen=True, kw_only=True)
class GlobalAveragePool(Layer):
    """The mean of each channel over the image."""

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (features,), one for each channel."""
        return shapes[0][:1]


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """Normalisation of each channel over the batch, then a trained scale and offset.

    In training, mean and variance are those of the batch (the biased variance, divided by the
    number of values). For evaluation, running statistics are updated: ``running = momentum *
    running + (1 - momentum) * batch``. By default PyTorch tracks the unbiased variance; its
    adapter makes it track the biased one, like the others.
    """

    momentum: float = 0.9
    epsilon: float = 1e-5

    @property
    def momentum_float32(self) -> float:
        """The momentum rounded to float32, used in all frameworks because MXNet stores it so."""
        return float(np.float32(self.momentum))

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of scale (``weight``) and offset (``bias``)."""
        return {"weight": shape[:1], "bias": shape[:1]}

    def statistic_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of the running mean and variance."""
        return {"mean": shape[:1], "variance": shape[:1]}


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """Dropout: in training, elements are zeroed at random, the others scaled by 1 / (1 - rate).

    Attributes
    ----------
    external_mask
        Multiply by a mask that is set before each step, instead of drawing one, so that all
        frameworks drop the same elements when they are compared.
    """

    rate: float
    external_mask: bool = False


@dataclass(frozen=True, kw_only=True)
class Add(Layer):
    """The sum of several inputs of the same shape."""

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the shape of each input."""
        if len(set(shapes)) != 1:
            raise UserError(f"{self.name}.sources", list(shapes), "inputs of one shape")
        return shapes[0]


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """The concatenation of several inputs along the channels."""

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (channels, height, width)."""
        if len({shape[1:] for shape in shapes}) != 1:
            raise UserError(f"{self.name}.sources", list(shapes), "images of one size")
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """An element-wise function."""

    function: Literal["tanh", "relu"]


@dataclass(frozen=True, kw_only=True)
class Upsample(Layer):
    """Every pixel becomes a square of `factor` by `factor` (nearest neighbour)."""

    factor: int

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (channels, height, width)."""
        channels, *sides = shapes[0]
        return (channels, *(side * self.factor for side in sides))


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """All axes flattened into one.

    Attributes
    ----------
    order
        The axes from slowest to fastest. Networks use ``chw``; ``hwc`` is a mutation that the
        comparator must detect: a framework that flattens in its own layout.
    """

    order: Literal["chw", "hwc"] = "chw"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (features,)."""
        return (math.prod(shapes[0]),)


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """A fully connected layer with bias; for text the same at each time step."""

    features: int

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (features,), for text (time steps, features)."""
        if len(shapes[0]) > 2:
            needed = "an input without height and width: a Flatten before it"
            raise UserError(f"{self.name}.sources", list(shapes[0]), needed)
        return (*shapes[0][:-1], self.features)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of matrix and bias."""
        return {"weight": (self.features, shape[-1]), "bias": (self.features,)}


@dataclass(frozen=True, kw_only=True)
class Embedding(Layer):
    """A trained vector for each word."""

    words: int
    features: int

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (time steps, features)."""
        return (*shapes[0], self.features)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shape of the embedding matrix."""
        return {"weight": (self.words, self.features)}


#: The gates of an LSTM by letter: input, forget, cell (the candidate), output.
GATES = "ifco"


@dataclass(frozen=True, kw_only=True)
class LSTM(Layer):
    """A layer of long short-term memory cells.

    With the input x and the previous state, hidden h and cell c, every gate is an affine function
    of x and h; then c' = sigmoid(f) * c + sigmoid(i) * tanh(cell) and h' = sigmoid(o) * tanh(c').
    The state after a batch is the initial state of the next one; no gradient flows through it.
    There is one bias; the second one of PyTorch and MXNet is fixed at zero.

    Attributes
    ----------
    gates
        The order of the gates in the rows of the weights. Any other order is a mutation that the
        comparator must detect.

    References
    ----------
    Hochreiter and Schmidhuber, "Long short-term memory", Neural Computation 9(8), 1997; with the
    forget gate of Gers, Schmidhuber and Cummins, Neural Computation 12(10), 2000.
    """

    units: int
    gates: str = GATES

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (time steps, units)."""
        return (shapes[0][0], self.units)

    def weight_shapes(self, shape: Shape) -> dict[str, Shape]:
        """Return the shapes of the matrices for input and hidden state, and of the bias."""
        rows = len(GATES) * self.units
        return {
            "input_weight": (rows, shape[-1]),
            "hidden_weight": (rows, self.units),
            "bias": (rows,),
        }

    def state_shapes(self) -> dict[str, Shape]:
        """Return the shapes of the recurrent state of one example, by name."""
        return {"hidden": (self.units,), "cell": (self.units,)}


def _output_sides(layer: Conv | MaxPool, shape: Shape) -> Shape:
    """Return height and width: floor((side + 2 padding - kernel) / stride) + 1."""
    padded = [side + 2 * layer.padding for side in shape[1:]]
    for side in padded:
        if side < layer.kernel:
            allowed = f"at most {side} for its input"
            raise InputTooSmall(f"{layer.name}.kernel", layer.kernel, allowed)
    return tuple((side - layer.kernel) // layer.stride + 1 for side in padded)


def conv_norm(
    name: str,
    source: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    with_activation: bool = True,
) -> list[Layer]:
    """Return a convolution without bias, batch norm, and a rectifier; stride 1 keeps the size."""
    layers: list[Layer] = [
        Conv(
            name=f"{name}_conv",
            sources=(source,),
            channels=channels,
            kernel=kernel,
            stride=stride,
            padding=kernel // 2,
            bias=False,
        ),
        BatchNorm(name=f"{name}_norm"),
    ]
    if with_activation:
        layers.append(Activation(name=f"{name}_relu", function="relu"))
    return layers
