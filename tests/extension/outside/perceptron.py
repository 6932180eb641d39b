"""A perceptron with one hidden layer."""

from __future__ import annotations

from horizont.networks.layers import Activation, Dense, Flatten, Shape
from horizont.networks.network import Network


def build_perceptron(input_shape: Shape, classes: int) -> Network:
    """Build the perceptron: 32 hidden units."""
    return Network(
        name="perceptron",
        input_shape=input_shape,
        classes=classes,
        layers=(
            Flatten(name="flatten"),
            Dense(name="fc1", features=32),
            Activation(name="tanh1", function="tanh"),
            Dense(name="fc2", features=classes),
        ),
    )
