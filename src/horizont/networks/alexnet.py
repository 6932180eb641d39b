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
    Upsample,
)
from horizont.networks.network import Network


def build_alexnet(input_shape: Shape, classes: int) -> Network:
    """Build AlexNet with the published number of weights, for 64x64 images.

    The strides are those of the original with 227x227 images, which leave a single pixel of each
    feature map where the original has 6x6. It is repeated, as adaptive pooling to 6x6 does, so that
    the matrices are as large as in the original: 62,378,344 weights with 1,000 classes, 58,322,314
    with 10.
    """
    return _build("alexnet", input_shape, classes, repetition=6)


def build_alexnet_small(input_shape: Shape, classes: int) -> Network:
    """Build AlexNet for 64x64 images without the repetition: 21,622,154 weights with 10 classes."""
    return _build("alexnet-small", input_shape, classes)


def _build(name: str, input_shape: Shape, classes: int, repetition: int = 1) -> Network:
    layers = [
        *_convolution(1, channels=96, kernel=11, stride=4, padding=2),
        MaxPool(name="pool1", kernel=3, stride=2),
        *_convolution(2, channels=256, kernel=5, padding=2),
        MaxPool(name="pool2", kernel=3, stride=2),
        *_convolution(3, channels=384, kernel=3, padding=1),
        *_convolution(4, channels=384, kernel=3, padding=1),
        *_convolution(5, channels=256, kernel=3, padding=1),
        MaxPool(name="pool5", kernel=3, stride=2),
        *([Upsample(name="repeat5", factor=repetition)] if repetition > 1 else []),
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
