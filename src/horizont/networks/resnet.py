"""ResNet-18 and ResNet-50, after He et al., "Deep residual learning ...", CVPR 2016, table 1.

In a bottleneck that halves the image, the first convolution moves by two pixels, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from horizont.networks.layers import (
    Activation,
    Add,
    BatchNorm,
    Conv,
    Dense,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import INPUT, Network

Stem = Literal["standard", "small"]

#: Describes the main path of a block with a name, a source, a number of channels and a stride.
BlockBuilder = Callable[[str, str, int, int], list[Layer]]


def build_resnet(
    input_shape: Shape, classes: int, *, depth: Literal[18, 50], stem: Stem = "standard"
) -> Network:
    """Describe a ResNet.

    Parameters
    ----------
    stem
        `standard`: a 7x7 convolution and a pooling, which make the image four times smaller
        before the first block. `small`: a 3x3 convolution that leaves it as it is, as is usual
        for images of 32x32.
    """
    blocks, path, widening = _DEPTH_SPECS[depth]
    layers = _stem(stem)
    width = 64  # channels that the next block receives
    for stage, count in enumerate(blocks):
        for block in range(count):
            channels = 64 * 2**stage
            stride = 2 if stage and not block else 1
            name = f"stage{stage + 1}_block{block + 1}"
            projected = stride > 1 or width != channels * widening
            source = layers[-1].name
            main = path(name, source, channels, stride)
            layers += _residual_block(main, source, stride=stride, with_projection=projected)
            width = channels * widening
    layers += [GlobalAveragePool(name="pool"), Dense(name="fc", features=classes)]
    suffix = "" if stem == "standard" else "-small-stem"
    return Network(f"resnet{depth}{suffix}", input_shape, classes, tuple(layers))


def _stem(stem: Stem) -> list[Layer]:
    if stem == "small":
        return _conv_norm("stem", INPUT, channels=64, kernel=3, stride=1, with_activation=True)
    return [
        *_conv_norm("stem", INPUT, channels=64, kernel=7, stride=2, with_activation=True),
        MaxPool(name="stem_pool", kernel=3, stride=2, padding=1),
    ]


def _residual_block(
    layers: list[Layer], source: str, *, stride: int, with_projection: bool
) -> list[Layer]:
    """Describe a block: its path, a shortcut beside it, and their sum."""
    name = layers[0].name.removesuffix("_a_conv")
    end, short = layers[-1].name, source
    if with_projection:
        width = next(layer for layer in reversed(layers) if isinstance(layer, Conv)).channels
        layers += _conv_norm(f"{name}_short", source, channels=width, kernel=1, stride=stride)
        short = layers[-1].name
    return [
        *layers,
        Add(name=f"{name}_sum", sources=(end, short)),
        Activation(name=f"{name}_relu", function="relu"),
    ]


def _basic_path(name: str, source: str, channels: int, stride: int) -> list[Layer]:
    """Describe two 3x3 convolutions."""
    part = partial(_conv_norm, channels=channels, kernel=3)
    first = part(f"{name}_a", source, stride=stride, with_activation=True)
    return [*first, *part(f"{name}_b", first[-1].name)]


def _bottleneck_path(name: str, source: str, channels: int, stride: int) -> list[Layer]:
    """Describe a 3x3 convolution between two that change the number of channels."""
    first = _conv_norm(
        f"{name}_a", source, channels=channels, kernel=1, stride=stride, with_activation=True
    )
    second = _conv_norm(
        f"{name}_b", first[-1].name, channels=channels, kernel=3, with_activation=True
    )
    third = _conv_norm(f"{name}_c", second[-1].name, channels=4 * channels, kernel=1)
    return [*first, *second, *third]


def _conv_norm(
    name: str,
    source: str,
    *,
    channels: int,
    kernel: int,
    stride: int = 1,
    with_activation: bool = False,
) -> list[Layer]:
    """Describe a convolution without bias, batch norm, and an activation if asked for."""
    layers: list[Layer] = [
        Conv(
            name=f"{name}_conv",
            sources=(source,),
            channels=channels,
            kernel=kernel,
            stride=stride,
            padding=kernel // 2,
            bias=False,
        ),
        BatchNorm(name=f"{name}_norm"),
    ]
    return (
        [*layers, Activation(name=f"{name}_relu", function="relu")] if with_activation else layers
    )


#: By depth: blocks in each stage, the path of a block, and its channels at the end as a multiple.
_DEPTH_SPECS: dict[int, tuple[tuple[int, ...], BlockBuilder, int]] = {
    18: ((2, 2, 2, 2), _basic_path, 1),
    50: ((3, 4, 6, 3), _bottleneck_path, 4),
}
