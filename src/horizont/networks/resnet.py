"""ResNet-18 and ResNet-50, after He et al., "Deep residual learning ...", CVPR 2016, table 1.

In a bottleneck that halves the feature map, the first convolution has stride 2, as in the paper.
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

#: Returns the main path of a block for its name, source, number of channels and stride.
BlockBuilder = Callable[[str, str, int, int], list[Layer]]


def build_resnet(
    input_shape: Shape, classes: int, *, depth: Literal[18, 50], stem: Stem = "standard"
) -> Network:
    """Build a ResNet.

    Parameters
    ----------
    stem
        `standard`: a 7x7 convolution and pooling, which reduce the image to a quarter before the
        first block. `small`: a 3x3 convolution that keeps its size, as usual for 32x32 images.
    """
    blocks, build_path, expansion = _DEPTH_SPECS[depth]
    layers = _stem(stem)
    input_channels = 64  # of the next block
    for stage, count in enumerate(blocks):
        for block in range(count):
            channels = 64 * 2**stage
            stride = 2 if stage and not block else 1
            name = f"stage{stage + 1}_block{block + 1}"
            with_projection = stride > 1 or input_channels != channels * expansion
            source = layers[-1].name
            path = build_path(name, source, channels, stride)
            layers += _residual_block(path, source, stride=stride, with_projection=with_projection)
            input_channels = channels * expansion
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
    path: list[Layer], source: str, *, stride: int, with_projection: bool
) -> list[Layer]:
    """Return a block: its path, the shortcut, and their sum."""
    name = path[0].name.removesuffix("_a_conv")
    shortcut: list[Layer] = []
    if with_projection:
        channels = next(layer for layer in reversed(path) if isinstance(layer, Conv)).channels
        shortcut = _conv_norm(f"{name}_short", source, channels=channels, kernel=1, stride=stride)
    shortcut_source = shortcut[-1].name if shortcut else source
    return [
        *path,
        *shortcut,
        Add(name=f"{name}_sum", sources=(path[-1].name, shortcut_source)),
        Activation(name=f"{name}_relu", function="relu"),
    ]


def _basic_path(name: str, source: str, channels: int, stride: int) -> list[Layer]:
    """Return two 3x3 convolutions."""
    conv = partial(_conv_norm, channels=channels, kernel=3)
    first = conv(f"{name}_a", source, stride=stride, with_activation=True)
    return [*first, *conv(f"{name}_b", first[-1].name)]


def _bottleneck_path(name: str, source: str, channels: int, stride: int) -> list[Layer]:
    """Return a 3x3 convolution between two 1x1 convolutions that change the channels."""
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
    """Return a convolution without bias, batch norm, and optionally an activation."""
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
    if with_activation:
        layers.append(Activation(name=f"{name}_relu", function="relu"))
    return layers


#: By depth: blocks of each stage, the path of a block, and the expansion of its channels.
_DEPTH_SPECS: dict[int, tuple[tuple[int, ...], BlockBuilder, int]] = {
    18: ((2, 2, 2, 2), _basic_path, 1),
    50: ((3, 4, 6, 3), _bottleneck_path, 4),
}
