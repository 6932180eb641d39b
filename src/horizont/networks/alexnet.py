"""AlexNet, after Krizhevsky, Sutskever and Hinton, "ImageNet classification ...", NIPS 2012.

Its two halves are joined, as usual, and there is no local response normalisation.
"""

from __future__ import annotations

from horizont.networks.layers import (
    Activation,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import Network


def build_alexnet(input_shape: Shape, classes: int) -> Network:
    """Build AlexNet with the published number of weights, for 64x64 images.

    The first convolution has stride 1 instead of 4. Its output is 56x56, where that of the
    original with 227x227 images is 55x55, and all later layers are as large as in the original:
    62,378,344 weights with 1,000 classes, 58,322,314 with 10.
    """
    return _build("alexnet", input_shape, classes, stride=1, padding=1)


def build_alexnet_small(input_shape: Shape, classes: int) -> Network:
    """Build AlexNet with the original strides for 64x64 images; the last feature map is 1x1.

    The first matrix is 36 times smaller: 21,622,154 weights with 10 classes.
    """
    return _build("alexnet-small", input_shape, classes, stride=4, padding=2)


def _build(name: str, input_shape: Shape, classes: int, stride: int, padding: int) -> Network:
    layers = [
        *_convolution(1, channels=96, kernel=11, stride=stride, padding=padding),
        MaxPool(name="pool1", kernel=3, stride=2),
        *_convolution(2, channels=256, kernel=5, padding=2),
        MaxPool(name="pool2", kernel=3, stride=2),
        *_convolution(3, channels=384, kernel=3, padding=1),
        *_convolution(4, channels=384, kernel=3, padding=1),
        *_convolution(5, channels=256, kernel=3, padding=1),
        MaxPool(name="pool5", kernel=3, stride=2),
        Flatten(name="flatten"),
        *_dense(6),
        *_dense(7),
        Dense(name="fc8", features=classes),
    ]
    return Network(name=name, input_shape=input_shape, classes=classes, layers=tuple(layers))


def _convolution(
    number: int, *, channels: int, kernel: int, padding: int, stride: int = 1
) -> list[Layer]:
    return [
        Conv(
            name=f"conv{number}", channels=channels, kernel=kernel, stride=stride, padding=padding
        ),
        Activation(name=f"relu{number}", function="relu"),
    ]


def _dense(number: int) -> list[Layer]:
    return [
        Dropout(name=f"dropout{number}", rate=0.5),
        Dense(name=f"fc{number}", features=4096),
        Activation(name=f"relu{number}", function="relu"),
    ]
