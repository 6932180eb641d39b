"""LeNet-5 and a variant.

LeCun et al., "Gradient-based learning applied to document recognition", Proc. IEEE 86(11), 1998.
The trainable subsampling and the partial connections of the original are replaced, as usual and as
in the published study, by max pooling and full connections.
The variant for 28x28 images is that of the 2018 scaling study.
"""

from __future__ import annotations

from horizont.networks.layers import Activation, Conv, Dense, Flatten, MaxPool, Shape
from horizont.networks.network import Network


def build_lenet(input_shape: Shape, classes: int) -> Network:
    """Build the variant: 5x5 convolutions with 20 and 50 channels, then 500 and the classes."""
    return Network(
        name="lenet",
        input_shape=input_shape,
        classes=classes,
        layers=(
            Conv(name="conv1", channels=20, kernel=5),
            Activation(name="tanh1", function="tanh"),
            MaxPool(name="pool1", kernel=2, stride=2),
            Conv(name="conv2", channels=50, kernel=5),
            Activation(name="tanh2", function="tanh"),
            MaxPool(name="pool2", kernel=2, stride=2),
            Flatten(name="flatten"),
            Dense(name="fc1", features=500),
            Activation(name="tanh3", function="tanh"),
            Dense(name="fc2", features=classes),
        ),
    )


def build_lenet5(input_shape: Shape, classes: int) -> Network:
    """Build LeNet-5: 5x5 convolutions with 6 and 16 channels, then 120, 84 and the classes."""
    return Network(
        name="lenet5",
        input_shape=input_shape,
        classes=classes,
        layers=(
            Conv(name="conv1", channels=6, kernel=5),
            Activation(name="tanh1", function="tanh"),
            MaxPool(name="pool1", kernel=2, stride=2),
            Conv(name="conv2", channels=16, kernel=5),
            Activation(name="tanh2", function="tanh"),
            MaxPool(name="pool2", kernel=2, stride=2),
            Flatten(name="flatten"),
            Dense(name="fc1", features=120),
            Activation(name="tanh3", function="tanh"),
            Dense(name="fc2", features=84),
            Activation(name="tanh4", function="tanh"),
            Dense(name="fc3", features=classes),
        ),
    )
