"""A small network with batch norm: a ResNet takes far longer to start."""

from __future__ import annotations

from horizont.networks.layers import Add, Dense, Flatten, MaxPool, Shape, Upsample, conv_norm
from horizont.networks.network import INPUT, Network


def build_normed(input_shape: Shape, classes: int) -> Network:
    """Build two convolutions with batch norm, a shortcut, upsampling and a dense layer."""
    first = conv_norm("first", INPUT, 8, 3, stride=2)
    second = conv_norm("second", first[-1].name, 8, 3)
    layers = (
        *first,
        *second,
        Add(name="sum", sources=(second[-1].name, first[-1].name)),
        MaxPool(name="pool", kernel=8, stride=8),
        Upsample(name="repeat", factor=3),
        Flatten(name="flatten"),
        Dense(name="fc", features=classes),
    )
    return Network("normed", input_shape, classes, layers)
