"""What is ported: models of Keras, and a function of JAX."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def heads(form: str = "tuple") -> Any:
    """Return a model with two results."""
    inputs = keras.Input((8,))
    x = layers.Dense(16, "relu")(inputs)
    first, second = layers.Dense(3)(x), layers.Dense(2, "sigmoid")(x)
    results = [first, second] if form == "tuple" else {"z": second, "y": first}
    results = {"auxiliary": second, form: first} if form == "logits" else results
    return keras.Model(inputs, results)


def leaky(slope: float) -> Any:
    """Return a model with a leaky ReLU."""
    return keras.Sequential(
        [keras.Input((8,)), layers.Dense(16), layers.LeakyReLU(slope), layers.Dense(3)]
    )


def grouped() -> Any:
    """Return a model with a group norm."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same"),
            layers.GroupNormalization(4),
            layers.ReLU(),
            layers.Conv2D(2, 1),
        ]
    )


def larger(mode: str = "bilinear") -> Any:
    """Return a model that is twice as large by interpolation."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(6, 3, padding="same", activation="relu"),
            layers.UpSampling2D(2, interpolation=mode),
            layers.Conv2D(2, 3, padding="same"),
        ]
    )


def transposed() -> Any:
    """Return a model that is twice as large by a transposed convolution."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(6, 3, padding="same", activation="relu"),
            layers.Conv2DTranspose(4, 3, 2, padding="same", activation="relu"),
            layers.Conv2D(2, 3, padding="same"),
        ]
    )


def decoder() -> Any:
    """Return a model whose features become images."""
    return keras.Sequential(
        [
            keras.Input((8,)),
            layers.Dense(6 * 4 * 4, "relu"),
            layers.Reshape((4, 4, 6)),
            layers.Conv2D(2, 3, padding="same"),
        ]
    )


def gated(*, reset_after: bool = True) -> Any:
    """Return the last step of a GRU."""
    return keras.Sequential(
        [
            keras.Input((7,)),
            layers.Embedding(50, 12),
            layers.GRU(16, reset_after=reset_after),
            layers.Dense(3),
        ]
    )


def by_groups() -> Any:
    """Return a model with a norm of four groups of channels."""
    norm = layers.GroupNormalization(4, epsilon=1e-5)
    last = layers.Conv2D(4, 1)
    return keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Conv2D(8, 3), norm, layers.ReLU(), last]
    )


def joined() -> Any:
    """Return a model with two branches, side by side."""
    inputs = keras.Input((8,))
    branches = [layers.Dense(6, "relu")(inputs), layers.Dense(4, "tanh")(inputs)]
    return keras.Model(inputs, layers.Dense(3)(layers.Concatenate()(branches)))


def recurrent(reduction: str = "last") -> Any:
    """Return one step of an LSTM, or a function of all steps."""
    reductions = {
        "last": [layers.LSTM(16)],
        "mean": [layers.LSTM(16, return_sequences=True), layers.GlobalAveragePooling1D()],
        "max": [layers.LSTM(16, return_sequences=True), layers.GlobalMaxPooling1D()],
    }
    first = [keras.Input((7,)), layers.Embedding(50, 12)]
    return keras.Sequential([*first, *reductions[reduction], layers.Dense(3)])


def predicted(loss: str) -> Any:
    """Return a model of one number with its loss."""
    model = keras.Sequential([keras.Input((8,)), layers.Dense(1)])
    model.compile(loss=keras.losses.BinaryCrossentropy(from_logits=True) if loss == "" else loss)
    return model


def windows() -> Any:
    """Return convolutions of several widths over words, each reduced to its largest value."""
    inputs = keras.Input((7,))
    x = layers.Embedding(50, 12)(inputs)
    images = [layers.Conv1D(8, width, activation="relu")(x) for width in (3, 4, 5)]
    pooled = [layers.GlobalMaxPooling1D()(each) for each in images]
    return keras.Model(inputs, layers.Dense(2)(layers.Concatenate()(pooled)))


class OwnNorm(layers.Layer):
    """A norm that a model defines itself, which may multiply by its weight plus one."""

    def __init__(self, plus_one: bool) -> None:
        super().__init__()
        self.plus_one = plus_one

    def build(self, shape: Any) -> None:
        """Create the weight."""
        start = "zeros" if self.plus_one else "ones"
        self.gain = self.add_weight(shape=shape[-1:], initializer=start, name="gain")

    def call(self, x: Any) -> Any:
        """Return the features with a mean square of one, times the weight."""
        x = x * keras.ops.rsqrt(keras.ops.mean(keras.ops.square(x), -1, keepdims=True) + 1e-6)
        return x * (1 + self.gain) if self.plus_one else x * self.gain


def norm(plus_one: bool = True) -> Any:
    """Return a model with a norm of its own."""
    return keras.Sequential(
        [keras.Input((8,)), layers.Dense(16), OwnNorm(plus_one), layers.Dense(3)]
    )


def directions() -> Any:
    """Return a model with a recurrent layer in both directions."""
    both = layers.Bidirectional(layers.LSTM(16))
    return keras.Sequential([keras.Input((6, 8)), both, layers.Dense(3)])
