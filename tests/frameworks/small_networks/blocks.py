"""A small network of the blocks of the deep networks: each framework compiles it in seconds."""

from __future__ import annotations

from horizont.networks.inception import BranchChannels, _inception_module
from horizont.networks.layers import (
    Activation,
    Conv,
    Dense,
    Dropout,
    GlobalAveragePool,
    MaxPool,
    Shape,
    conv_norm,
)
from horizont.networks.network import Network
from horizont.networks.resnet import _residual_block


def build_blocks(input_shape: Shape, classes: int) -> Network:
    """Build the stems of AlexNet and ResNet, three residual blocks and an inception module."""
    layers = [
        Conv(name="conv1", channels=8, kernel=11, stride=4, padding=2),
        Activation(name="relu1", function="relu"),
        MaxPool(name="pool1", kernel=3, stride=2),
        *conv_norm("stem", "pool1", 8, 7, stride=2),
        MaxPool(name="stem_pool", kernel=3, stride=2, padding=1),
    ]
    for name, stride, is_bottleneck, with_projection in (
        ("halving", 2, False, True),
        ("identity", 1, False, False),
        ("bottleneck", 1, True, True),
    ):
        layers += _residual_block(
            name,
            layers[-1].name,
            channels=8,
            stride=stride,
            is_bottleneck=is_bottleneck,
            with_projection=with_projection,
        )
    layers += _inception_module("inception", layers[-1].name, BranchChannels(4, 4, 6, 2, 4, 3))
    layers += [
        MaxPool(name="pool4", kernel=3, stride=2, padding=1),
        GlobalAveragePool(name="pool"),
        Dropout(name="dropout6", rate=0.5),
        Dense(name="fc6", features=16),
        Activation(name="relu6", function="relu"),
        Dropout(name="dropout", rate=0.4),
        Dense(name="fc", features=classes),
    ]
    return Network("blocks", input_shape, classes, tuple(layers))
