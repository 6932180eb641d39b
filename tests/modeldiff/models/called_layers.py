"""Networks of Keras for comparisons with those of `called_models.py`."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


class AlwaysDropped(layers.Layer):
    """Dropout that evaluation does not disable."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = layers.Dropout(0.4)

    def call(self, x: Any) -> Any:
        """Return features, some of them zero."""
        return self.dropout(x, training=True)


def dropped(always: bool) -> Any:
    """Return a network with dropout in training, or always."""
    dropout = AlwaysDropped() if always else layers.Dropout(0.4)
    return keras.Sequential([keras.Input((8,)), layers.Dense(16), dropout, layers.Dense(3)])


def recurrent(gates: str = "sigmoid", activation: str = "tanh") -> Any:
    """Return the network `Recurrent`."""
    cell = layers.LSTM(5, recurrent_activation=gates, activation=activation)
    return keras.Sequential([keras.Input((6, 8)), cell, layers.Dense(3)])


def attention(causal: bool = False) -> Any:
    """Return the network `Attention`."""
    batch = keras.Input((6, 8))
    x = layers.Dense(16, activation="relu")(batch)
    x = x + layers.MultiHeadAttention(4, 4)(x, x, use_causal_mask=causal)
    return keras.Model(batch, layers.Dense(3)(x))


def padded() -> Any:
    """Return the network `Padded`."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.Conv2D(8, 3, strides=2, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3),
        ]
    )
