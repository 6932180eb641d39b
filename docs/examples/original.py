"""A model of Keras, which `port.py` ports."""

import keras


def build() -> keras.Model:
    """Return the model."""
    return keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)]
    )
