"""A network as Keras layers, channels last: the only layout that TensorFlow trains on CPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from horizont.frameworks.base import Weights
from horizont.networks import layers
from horizont.networks.layers import Shape
from horizont.networks.network import INPUT, Network


class PaddedMaxPool(keras.layers.Layer):
    """Max pooling with the same padding on every side, which Keras does not offer.

    Keras' "same" pads an even image that is halved on one side only. XLA has no pooling with
    explicit padding, so the image is padded with the smallest number before.
    """

    def __init__(self, layer: layers.MaxPool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window, self.stride = layer.kernel, layer.stride
        self.paddings = [[0, 0], [layer.padding] * 2, [layer.padding] * 2, [0, 0]]

    def call(self, images: Any) -> Any:
        """Pool (examples, height, width, channels)."""
        padded = tf.pad(images, self.paddings, constant_values=images.dtype.min)
        return tf.nn.max_pool2d(padded, self.window, self.stride, "VALID")


class ExternalDropout(keras.layers.Layer):
    """A dropout whose mask is set from outside.

    Attributes
    ----------
    image_shape
        (channels, height, width) of an input that is a flattened image: it was flattened with the
        channels last, and so is the mask.
    """

    def __init__(self, image_shape: Shape | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.image_shape = image_shape
        self.mask = tf.Variable(
            np.ones(1, kwargs["dtype"]), shape=tf.TensorShape(None), trainable=False
        )

    def set_mask(self, mask: NDArray[Any]) -> None:
        """Set the mask of the next step, in canonical layout."""
        if self.image_shape:
            mask = mask.reshape(-1, *self.image_shape).transpose(0, 2, 3, 1).reshape(len(mask), -1)
        self.mask.assign(mask.astype(self.mask.dtype.as_numpy_dtype))

    def call(self, values: Any) -> Any:
        """Multiply by the mask."""
        return tf.ensure_shape(values * self.mask, values.shape)


def build_keras_model(network: Network, dtype: str, seed: int) -> Any:
    """Build the network as a Keras model.

    Its weights are zero until the caller sets them. A recurrent network takes the states of its
    layers after the input, and returns the new ones after the scores.
    """
    keras.utils.set_random_seed(seed)
    if network.reads_text:
        values = {INPUT: keras.Input(network.input_shape, dtype="int64")}
    else:
        channels, *sides = network.input_shape
        values = {INPUT: keras.Input((*sides, channels), dtype=dtype)}
    initial = [keras.Input(shape, dtype=dtype) for shape in network.state_shapes().values()]
    remaining, final = iter(initial), []
    image: Shape | None = None
    for context in network.layer_contexts:
        layer = context.layer
        if isinstance(layer, layers.Flatten):
            image = context.shape
        elif isinstance(layer, layers.Dense):
            image = None
        apply = _layer(layer, dtype, image)
        inputs = [values[source] for source in context.sources]
        if isinstance(layer, layers.LSTM):
            state = [next(remaining), next(remaining)]
            values[layer.name], *new_state = apply(inputs[0], initial_state=state)
            final += new_state
        else:
            values[layer.name] = apply(inputs if len(inputs) > 1 else inputs[0])
    scores = values[network.layers[-1].name]
    if not final:
        return keras.Model(values[INPUT], scores)
    return keras.Model([values[INPUT], *initial], [scores, *final])


def _layer(layer: layers.Layer, dtype: str, image_shape: Shape | None) -> Callable[..., Any]:
    """Return the Keras layer of a layer."""
    options: dict[str, Any] = {"name": layer.name, "dtype": dtype}
    apply: Callable[..., Any]
    match layer:
        case layers.Conv():
            apply = _convolution(layer, options)
        case layers.MaxPool():
            apply = _pool(layer, options)
        case layers.Upsample():
            apply = keras.layers.UpSampling2D(layer.factor, **options)
        case layers.Activation():
            apply = keras.layers.Activation(layer.function, **options)
        case layers.Dense():
            apply = keras.layers.Dense(layer.features, kernel_initializer="zeros", **options)
        case layers.Embedding():
            apply = keras.layers.Embedding(layer.words, layer.features, **options)
        case layers.LSTM():
            apply = keras.layers.LSTM(
                layer.units, return_sequences=True, return_state=True, **options
            )
        case layers.BatchNorm():
            apply = keras.layers.BatchNormalization(
                momentum=layer.momentum_float32, epsilon=layer.epsilon, **options
            )
        case layers.Dropout():
            apply = (
                ExternalDropout(image_shape, **options)
                if layer.external_mask
                else keras.layers.Dropout(layer.rate, **options)
            )
        case _:
            apply = PARAMETERLESS_LAYERS[type(layer)](**options)
    return apply


#: Layers without parameters.
PARAMETERLESS_LAYERS: dict[type[layers.Layer], Any] = {
    layers.Flatten: keras.layers.Flatten,
    layers.GlobalAveragePool: keras.layers.GlobalAveragePooling2D,
    layers.Add: keras.layers.Add,
    layers.Concat: keras.layers.Concatenate,
}


def _keras_padding(layer: layers.Conv | layers.MaxPool) -> str:
    """Return Keras' name of a padding; "" for one that it does not offer.

    Only with stride 1 does "same" pad all sides equally.
    """
    if layer.stride == 1 and 2 * layer.padding == layer.kernel - 1:
        return "same"
    return "" if layer.padding else "valid"


def _pool(layer: layers.MaxPool, options: dict[str, Any]) -> Callable[..., Any]:
    padding = _keras_padding(layer)
    if not padding:
        return PaddedMaxPool(layer, **options)
    kind = keras.layers.MaxPooling2D if layer.mode == "max" else keras.layers.AveragePooling2D
    return kind(layer.kernel, layer.stride, padding=padding, **options)


def _convolution(layer: layers.Conv, options: dict[str, Any]) -> Callable[..., Any]:
    padding = _keras_padding(layer)
    convolution = keras.layers.Conv2D(
        layer.channels,
        layer.kernel,
        strides=layer.stride,
        padding=padding or "valid",
        use_bias=layer.bias,
        kernel_initializer="zeros",
        **options,
    )
    if padding:
        return convolution
    pad = keras.layers.ZeroPadding2D(layer.padding, **{**options, "name": f"{layer.name}_padding"})
    return lambda images: convolution(pad(images))


class RecurrentState:
    """The recurrent states of this process, (examples, units) each; initially zero."""

    def __init__(self, shapes: Mapping[str, Shape], dtype: str) -> None:
        self.shapes = shapes
        with tf.init_scope():
            self.variables = [
                tf.Variable(np.zeros((1, *shape), dtype), shape=(None, *shape), trainable=False)
                for shape in shapes.values()
            ]

    def read(self, examples: Any) -> list[Any]:
        """Return the states for a batch of `examples`."""
        return [state + tf.zeros((examples, 1), state.dtype) for state in self.variables]

    def assign(self, states: Sequence[Any]) -> None:
        """Set the states after a batch; no gradient flows back through them."""
        for state, value in zip(self.variables, states, strict=True):
            state.assign(tf.stop_gradient(value))

    def reset(self) -> None:
        """Zero the states."""
        for state in self.variables:
            state.assign(tf.zeros((1, state.shape[1]), state.dtype))

    def to_named_arrays(self) -> Weights:
        """Return copies of the states by canonical name."""
        return {
            name: state.numpy() for name, state in zip(self.shapes, self.variables, strict=True)
        }


class ServerRecurrentStates:
    """The recurrent states of all workers, on a server: (workers, examples, units) each."""

    def __init__(self, shapes: Mapping[str, Shape], dtype: str, workers: int, rows: int) -> None:
        self.variables = [
            tf.Variable(np.zeros((workers, rows, *shape), dtype), trainable=False)
            for shape in shapes.values()
        ]

    def read(self, rank: Any) -> list[Any]:
        """Return the states of a worker."""
        return [tf.gather(state.read_value(), tf.cast(rank, tf.int32)) for state in self.variables]

    def assign(self, rank: Any, states: Sequence[Any]) -> None:
        """Set the states of a worker after its batch."""
        index = tf.reshape(tf.cast(rank, tf.int32), (1,))
        for state, value in zip(self.variables, states, strict=True):
            row = tf.IndexedSlices(tf.stop_gradient(value)[tf.newaxis], index)
            state.scatter_update(row)
