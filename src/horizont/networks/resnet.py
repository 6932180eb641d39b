"""ResNet-18 and ResNet-50, after He et al., "Deep residual learning ...", CVPR 2016, table 1.

In a bottleneck that halves the feature map, the first convolution has stride 2, as in the paper.
"""

from __future__ import annotations

from typing import Literal

from horizont.networks.layers import (
    Activation,
    Add,
    Dense,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
    conv_norm,
)
from horizont.networks.network import INPUT, Network

#: Blocks of each stage, by depth.
_BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


def build_resnet(
    input_shape: Shape,
    classes: int,
    *,
    depth: Literal[18, 50],
    stem: Literal["standard", "small"] = "standard",
) -> Network:
    """Build a ResNet.

    Parameters
    ----------
    stem
        `standard`: a 7x7 convolution and pooling, which reduce the image to a quarter before the
        first block. `small`: a 3x3 convolution that keeps its size, as usual for 32x32 images.
    """
    if stem == "small":
        layers = conv_norm("stem", INPUT, 64, 3)
    else:
        layers = conv_norm("stem", INPUT, 64, 7, stride=2)
        layers.append(MaxPool(name="stem_pool", kernel=3, stride=2, padding=1))
    for stage, count in enumerate(_BLOCKS[depth]):
        for block in range(count):
            layers += _residual_block(
                f"stage{stage + 1}_block{block + 1}",
                layers[-1].name,
                channels=64 * 2**stage,
                stride=2 if stage and not block else 1,
                is_bottleneck=depth == 50,
                with_projection=not block and (stage > 0 or depth == 50),  # the shape changes
            )
    layers += [GlobalAveragePool(name="pool"), Dense(name="fc", features=classes)]
    suffix = "" if stem == "standard" else "-small-stem"
    return Network(f"resnet{depth}{suffix}", input_shape, classes, tuple(layers))


def _residual_block(
    name: str,
    source: str,
    *,
    channels: int,
    stride: int,
    is_bottleneck: bool,
    with_projection: bool,
) -> list[Layer]:
    """Return a block: its path, the shortcut, and their sum.

    The path is two 3x3 convolutions, or, as a bottleneck, one between two 1x1 convolutions that
    change the channels.
    """
    if is_bottleneck:
        path = conv_norm(f"{name}_a", source, channels, 1, stride=stride)
        path += conv_norm(f"{name}_b", path[-1].name, channels, 3)
        channels *= 4
        path += conv_norm(f"{name}_c", path[-1].name, channels, 1, with_activation=False)
    else:
        path = conv_norm(f"{name}_a", source, channels, 3, stride=stride)
        path += conv_norm(f"{name}_b", path[-1].name, channels, 3, with_activation=False)
    shortcut: list[Layer] = []
    if with_projection:
        shortcut = conv_norm(
            f"{name}_short", source, channels, 1, stride=stride, with_activation=False
        )
    ends = (path[-1].name, shortcut[-1].name if shortcut else source)
    return [
        *path,
        *shortcut,
        Add(name=f"{name}_sum", sources=ends),
        Activation(name=f"{name}_relu", function="relu"),
    ]
