"""LeNet-5 and a variant.

LeCun et al., "Gradient-based learning applied to document recognition", Proc. IEEE 86(11), 1998.
The trainable subsampling and the partial connections of the original are replaced, as usual and as
in the published study, by max pooling and full connections.
The variant for 28x28 images is that of the 2018 scaling study.
"""

from __future__ import annotations

from collections.abc import Sequence

from horizont.networks.layers import Activation, Conv, Dense, Flatten, Layer, MaxPool, Shape
from horizont.networks.network import Network


def build_lenet(input_shape: Shape, classes: int) -> Network:
    """Build the variant: 5x5 convolutions with 20 and 50 channels, then 500 and the classes."""
    return _build("lenet", input_shape, classes, channels=(20, 50), features=(500,))


def build_lenet5(input_shape: Shape, classes: int) -> Network:
    """Build LeNet-5: 5x5 convolutions with 6 and 16 channels, then 120, 84 and the classes."""
    return _build("lenet5", input_shape, classes, channels=(6, 16), features=(120, 84))


def _build(
    name: str, input_shape: Shape, classes: int, channels: Sequence[int], features: Sequence[int]
) -> Network:
    layers: list[Layer] = []
    for number, count in enumerate(channels, 1):
        layers += [
            Conv(name=f"conv{number}", channels=count, kernel=5),
            Activation(name=f"tanh{number}", function="tanh"),
            MaxPool(name=f"pool{number}", kernel=2, stride=2),
        ]
    layers.append(Flatten(name="flatten"))
    for number, count in enumerate(features, 1):
        layers += [
            Dense(name=f"fc{number}", features=count),
            Activation(name=f"tanh{len(channels) + number}", function="tanh"),
        ]
    layers.append(Dense(name=f"fc{len(features) + 1}", features=classes))
    return Network(name, input_shape, classes, tuple(layers))
