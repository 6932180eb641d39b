"""A described network as Keras layers, channels last: the only layout that trains on processors.

The canonical layout is met when weights are written and read, never while training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import Weights
from horizont.networks import (
    Activation,
    Conv,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    Network,
    Shape,
    weight_shapes,
)


@dataclass(frozen=True)
class Slot:
    """A weight of the network: where TensorFlow keeps it, and how it lies there.

    Attributes
    ----------
    window
        The weight seen as a convolution, (out, channels, height, width). A fully connected
        layer behind a flattened image is one whose window is the whole image.
    """

    name: str
    canonical_shape: Shape
    window: Shape
    variable: Any

    def to_native(self, value: NDArray[Any]) -> NDArray[Any]:
        """Lay out a canonical value as TensorFlow does: (height, width, channels, out)."""
        native = value.reshape(self.window).transpose(2, 3, 1, 0)
        return native.reshape(self.variable.shape.as_list())

    def to_canonical(self, value: NDArray[Any]) -> NDArray[Any]:
        """Lay out TensorFlow's value as the project does."""
        out, channels, height, width = self.window
        native = value.reshape(height, width, channels, out)
        return np.ascontiguousarray(native.transpose(3, 2, 0, 1)).reshape(self.canonical_shape)


@dataclass(frozen=True)
class Model:
    """A network built of Keras layers, with its weights in the order of the layers."""

    network: Any
    slots: tuple[Slot, ...]

    @property
    def variables(self) -> list[Any]:
        """The weights as TensorFlow's variables."""
        return [slot.variable for slot in self.slots]

    def weights(self) -> Weights:
        """Read the weights by canonical name and in canonical layout."""
        return self.named([variable.numpy() for variable in self.variables])

    def named(self, values: Sequence[NDArray[Any]]) -> Weights:
        """Name values, one for each variable, and lay them out canonically."""
        return {
            slot.name: slot.to_canonical(value)
            for slot, value in zip(self.slots, values, strict=True)
        }


def build_model(network: Network, weights: Weights, dtype: str) -> Model:
    """Build the network, under the current strategy, and put the given weights into it."""
    channels, *sides = network.input_shape
    layers = [native for layer in network.layers for native in _layers(layer, dtype)]
    sequential = keras.Sequential([keras.Input((*sides, channels), dtype=dtype), *layers])
    model = Model(sequential, tuple(_slots(network, sequential)))
    for slot in model.slots:
        slot.variable.assign(slot.to_native(weights[slot.name]).astype(dtype))
    return model


def _slots(network: Network, sequential: Any) -> list[Slot]:
    """Find the variable of each weight."""
    # Under a strategy a variable is a container; the one that it keeps here is what is trained.
    strategy = tf.distribute.get_strategy()
    windows = _windows(network)
    slots = []
    for name, shape in weight_shapes(network).items():
        layer_name, short = name.rsplit(".", 1)
        layer = sequential.get_layer(layer_name)
        held = layer.kernel if short == "weight" else layer.bias
        variable = strategy.experimental_local_results(held.value)[0]
        window = windows[layer_name] if short == "weight" else (*shape, 1, 1, 1)
        slots.append(Slot(name, shape, window, variable))
    return slots


def _windows(network: Network) -> dict[str, Shape]:
    """Tell, for each layer with weights, what its matrix or kernel sees, as (out, c, h, w).

    The matrix behind a flattened image has its rows in the order in which TensorFlow flattens,
    channels fastest. Flattening `hwc` is the fault that leaves them where they were.
    """
    windows: dict[str, Shape] = {}
    image: Shape | None = None
    for layer, shape in network.inputs():
        match layer:
            case Conv():
                windows[layer.name] = (layer.channels, shape[0], layer.kernel, layer.kernel)
            case Flatten(order="chw") if len(shape) == 3:
                image = shape
            case Dense():
                windows[layer.name] = (layer.features, *(image or (*shape, 1, 1)))
                image = None
    return windows


def _layers(layer: Layer, dtype: str) -> list[Any]:
    """Translate a layer; the initial zeros are overwritten before they are used."""
    about: dict[str, Any] = {"name": layer.name, "dtype": dtype}
    match layer:
        case Conv():
            return _convolution(layer, about)
        case MaxPool():
            return [keras.layers.MaxPooling2D(layer.kernel, layer.stride, **about)]
        case Activation():
            return [keras.layers.Activation(layer.function, **about)]
        case Flatten():
            return [keras.layers.Flatten(**about)]
        case Dense():
            return [keras.layers.Dense(layer.features, kernel_initializer="zeros", **about)]
    raise TypeError(f"no Keras form of {type(layer).__name__}")


def _convolution(layer: Conv, about: dict[str, Any]) -> list[Any]:
    """Translate a convolution: Keras knows no number for the padding, only two words."""
    # With a stride, "same" pads one side more than the other: not what is described.
    same = layer.stride == 1 and 2 * layer.padding == layer.kernel - 1
    convolution = keras.layers.Conv2D(
        layer.channels,
        layer.kernel,
        strides=layer.stride,
        padding="same" if same else "valid",
        kernel_initializer="zeros",
        **about,
    )
    if same or not layer.padding:
        return [convolution]
    padded = {**about, "name": f"{layer.name}_padding"}
    return [keras.layers.ZeroPadding2D(layer.padding, **padded), convolution]
