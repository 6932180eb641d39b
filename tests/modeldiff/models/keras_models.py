"""Models of Keras, as they are written there by default."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers


def images(activation: str = "relu", scale: bool = True) -> Any:
    """Return the network `Images` of the models of PyTorch."""
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(scale=scale),
            layers.Activation(activation),
            layers.Conv2D(6, 3, padding="same", activation="gelu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(16, activation="tanh"),
            layers.Dropout(0.5),
            layers.Dense(5),
        ]
    )


def gates(dense: bool = True) -> Any:
    """Return the network `Gates` of the models of PyTorch."""
    return keras.Sequential(
        [
            keras.Input((None, 5)),
            layers.LSTM(4, return_sequences=True),
            layers.GRU(6),
            *([layers.Dense(3)] if dense else []),
        ]
    )


def encoder(heads: int = 2) -> Any:
    """Return the network `Encoder` of the models of PyTorch."""
    x = batch = keras.Input((6, 8))
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(heads, 8 // heads)(x, x))
        hidden = layers.Dense(16, activation="relu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(8)(hidden))
    return keras.Model(batch, layers.Dense(4)(x[:, -1]))


def attention() -> keras.Model:
    """Return the transformer `words` of `attention_models.py`, without tensors of its own."""
    words = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(50, 32)(words)
    for _ in range(2):
        y = keras.layers.LayerNormalization(epsilon=1e-5)(x)
        x = x + keras.layers.MultiHeadAttention(4, 8)(y, y)
    return keras.Model(words, keras.layers.Dense(7)(x))


def root_mean_square() -> keras.Model:
    """Return two norms without a mean."""
    words = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 16)(words)
    x = x + layers.Dense(16, activation="silu")(layers.RMSNormalization()(x))
    return keras.Model(words, layers.Dense(5)(layers.RMSNormalization()(x)))


def separable(multiplier: int = 1) -> keras.Model:
    """Return the network `separable` of the models of PyTorch, whose convolutions are one layer."""
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.SeparableConv2D(
                8, 3, strides=2, padding="same", depth_multiplier=multiplier, activation="relu"
            ),
            layers.SeparableConv2D(6, 3, use_bias=False),
            layers.GlobalAveragePooling2D(),
            layers.Dense(5),
        ]
    )


class TokenAndPositions(layers.Layer):
    """A layer that adds positions and a token of the class."""

    def build(self, shape: Any) -> None:
        """Create both tensors."""
        self.positions = self.add_weight(shape=(1, shape[1] + 1, shape[2]), name="positions")
        self.token = self.add_weight(shape=(1, 1, shape[2]), name="token")

    def call(self, x: Any) -> Any:
        """Return the token and the steps, to which the positions are added."""
        token = keras.ops.broadcast_to(self.token, (keras.ops.shape(x)[0], 1, x.shape[2]))
        return keras.ops.concatenate([token, x], axis=1) + self.positions


def positions() -> keras.Model:
    """Return the network `Positions` of the models of PyTorch."""
    inputs = keras.Input((16, 16, 3))
    x = layers.Reshape((16, 8))(layers.Conv2D(8, 4, strides=4)(inputs))
    x = layers.LayerNormalization(epsilon=1e-5)(TokenAndPositions()(x))
    return keras.Model(inputs, layers.Dense(5)(x[:, 0]))


def words() -> keras.Model:
    """Return the network `words` of the models of PyTorch."""
    x = keras.Input((6,), dtype="int32")
    return keras.Model(x, layers.Dense(4)(layers.Embedding(20, 8)(x)))


def adapted() -> keras.Model:
    """Return the network `plain_dense` of the models of PyTorch after a layer with statistics."""
    normalization = layers.Normalization(axis=None)
    normalization.adapt(np.array([[1.0, 3.0], [5.0, 7.0]]))
    dense = map(layers.Dense, (6, 5, 4, 3, 2))
    return keras.Sequential([keras.Input((7,)), normalization, *dense])
