"""A described network as Keras layers, channels last: the only layout that trains on processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import Weights
from horizont.networks.layers import (
    LSTM,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import INPUT, Network


class PaddedMaxPool(keras.layers.Layer):  # type: ignore[misc]
    """Max pooling with the same padding on every side, which Keras has no word for.

    Its "same" pads an even image that is halved on one side only. XLA has no pooling that pads by
    numbers, so the padding is written out, as the least number there is.
    """

    def __init__(self, layer: MaxPool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window, self.stride = layer.kernel, layer.stride
        self.paddings = [[0, 0], [layer.padding] * 2, [layer.padding] * 2, [0, 0]]

    def call(self, images: Any) -> Any:
        """Pool (examples, height, width, channels)."""
        padded = tf.pad(images, self.paddings, constant_values=images.dtype.min)
        return tf.nn.max_pool2d(padded, self.window, self.stride, "VALID")


class ExternalDropout(keras.layers.Layer):  # type: ignore[misc]
    """A dropout whose mask comes from outside.

    Attributes
    ----------
    image
        What lies flat here, as (channels, height, width), if it was an image: it was flattened
        with the channels last, and so must the mask be.
    """

    def __init__(self, image_shape: Shape | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.image_shape = image_shape
        self.mask = tf.Variable(
            np.ones(1, kwargs["dtype"]), shape=tf.TensorShape(None), trainable=False
        )

    def set_mask(self, mask: NDArray[Any]) -> None:
        """Take the mask of the next step, laid out canonically."""
        if self.image_shape:
            mask = mask.reshape(-1, *self.image_shape).transpose(0, 2, 3, 1).reshape(len(mask), -1)
        self.mask.assign(mask.astype(self.mask.dtype.as_numpy_dtype))

    def call(self, values: Any) -> Any:
        """Multiply by the mask."""
        return tf.ensure_shape(values * self.mask, values.shape)


def build_network(network: Network, dtype: str, seed: int = 0) -> Any:
    """Build the network as a Keras model.

    The initial zeros of its weights are overwritten before they are used. A recurrent network
    takes the states of its layers behind the input, and hands the new ones back behind the
    scores.
    """
    keras.utils.set_random_seed(seed)
    values = {INPUT: _input(network, dtype)}
    before = [keras.Input(shape, dtype=dtype) for shape in network.state_shapes().values()]
    states, after = iter(before), []
    image: Shape | None = None
    for place in network.layer_contexts:
        if isinstance(place.layer, Flatten):
            image = place.shape
        elif isinstance(place.layer, Dense):
            image = None
        apply = _layer(place.layer, dtype, image)
        received = [values[source] for source in place.sources]
        if isinstance(place.layer, LSTM):
            own = [next(states), next(states)]
            values[place.layer.name], *carried = apply(received[0], initial_state=own)
            after += carried
        else:
            values[place.layer.name] = apply(received if len(received) > 1 else received[0])
    scores = values[network.layers[-1].name]
    if not after:
        return keras.Model(values[INPUT], scores)
    return keras.Model([values[INPUT], *before], [scores, *after])


def _input(network: Network, dtype: str) -> Any:
    if network.reads_text:
        return keras.Input(network.input_shape, dtype="int64")
    channels, *sides = network.input_shape
    return keras.Input((*sides, channels), dtype=dtype)


def _layer(layer: Layer, dtype: str, image_shape: Shape | None) -> Callable[..., Any]:
    """Translate a layer."""
    about: dict[str, Any] = {"name": layer.name, "dtype": dtype}
    apply: Callable[..., Any]
    match layer:
        case Conv():
            apply = _convolution(layer, about)
        case MaxPool():
            apply = _pool(layer, about)
        case Activation():
            apply = keras.layers.Activation(layer.function, **about)
        case Dense():
            apply = keras.layers.Dense(layer.features, kernel_initializer="zeros", **about)
        case Embedding():
            apply = keras.layers.Embedding(layer.words, layer.features, **about)
        case LSTM():
            apply = keras.layers.LSTM(
                layer.units, return_sequences=True, return_state=True, **about
            )
        case BatchNorm():
            apply = keras.layers.BatchNormalization(
                momentum=layer.momentum_float32, epsilon=layer.epsilon, **about
            )
        case Dropout():
            apply = (
                ExternalDropout(image_shape, **about)
                if layer.external_mask
                else keras.layers.Dropout(layer.rate, **about)
            )
        case _:
            apply = PARAMETERLESS_LAYERS[type(layer)](**about)
    return apply


#: Layers without settings of their own.
PARAMETERLESS_LAYERS: dict[type[Layer], Any] = {
    Flatten: keras.layers.Flatten,
    GlobalAveragePool: keras.layers.GlobalAveragePooling2D,
    Add: keras.layers.Add,
    Concat: keras.layers.Concatenate,
}


def _pool(layer: MaxPool, options: dict[str, Any]) -> Callable[[Any], Any]:
    """Translate a pooling; where windows move by one, Keras' "same" is the same on every side."""
    same = layer.stride == 1 and 2 * layer.padding == layer.kernel - 1
    if layer.padding and not same:
        return PaddedMaxPool(layer, **options)
    kind = keras.layers.MaxPooling2D if layer.mode == "max" else keras.layers.AveragePooling2D
    return kind(  # type: ignore[no-any-return]
        layer.kernel, layer.stride, padding="same" if same else "valid", **options
    )


def _convolution(layer: Conv, options: dict[str, Any]) -> Callable[[Any], Any]:
    """Translate a convolution: Keras knows no number for the padding, only two words."""
    # With a stride, "same" pads one side more than the other: not what is described.
    same = layer.stride == 1 and 2 * layer.padding == layer.kernel - 1
    convolution = keras.layers.Conv2D(
        layer.channels,
        layer.kernel,
        strides=layer.stride,
        padding="same" if same else "valid",
        use_bias=layer.bias,
        kernel_initializer="zeros",
        **options,
    )
    if same or not layer.padding:
        return convolution  # type: ignore[no-any-return]
    pad = keras.layers.ZeroPadding2D(layer.padding, **{**options, "name": f"{layer.name}_padding"})
    return lambda images: convolution(pad(images))


class RecurrentState:
    """The states of this process, (examples, units) each; zeros to begin with."""

    def __init__(self, shapes: Mapping[str, Shape], dtype: str) -> None:
        self.shapes = shapes
        with tf.init_scope():
            self.variables = [
                tf.Variable(np.zeros((1, *shape), dtype), shape=(None, *shape), trainable=False)
                for shape in shapes.values()
            ]

    def read(self, examples: Any) -> list[Any]:
        """Tell the states for a batch of so many examples."""
        return [state + tf.zeros((examples, 1), state.dtype) for state in self.variables]

    def assign(self, after: Sequence[Any]) -> None:
        """Keep the states after a batch; no gradient flows back through them."""
        for state, value in zip(self.variables, after, strict=True):
            state.assign(tf.stop_gradient(value))

    def reset(self) -> None:
        """Begin with zeros."""
        for state in self.variables:
            state.assign(tf.zeros((1, state.shape[1]), state.dtype))

    def to_numpy(self) -> list[Any]:
        """Copy the states out."""
        return [state.numpy() for state in self.variables]

    def to_named_arrays(self) -> Weights:
        """Read the states by canonical name."""
        return dict(zip(self.shapes, self.to_numpy(), strict=True))


class ServerRecurrentStates:
    """The states of all workers, on a server: (workers, examples, units) each."""

    def __init__(self, shapes: Mapping[str, Shape], dtype: str, workers: int, rows: int) -> None:
        self.variables = [
            tf.Variable(np.zeros((workers, rows, *shape), dtype), trainable=False)
            for shape in shapes.values()
        ]

    def read(self, rank: Any) -> list[Any]:
        """Tell the states of a worker."""
        return [tf.gather(state.read_value(), tf.cast(rank, tf.int32)) for state in self.variables]

    def assign(self, rank: Any, after: Sequence[Any]) -> None:
        """Keep the states of a worker after its batch."""
        for state, value in zip(self.variables, after, strict=True):
            place = tf.reshape(tf.cast(rank, tf.int32), (1,))
            kept = tf.IndexedSlices(tf.stop_gradient(value)[tf.newaxis], place)
            state.scatter_update(kept)
