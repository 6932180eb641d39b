"""GoogLeNet with batch norm, for 32x32 images.

The inception modules are those of Szegedy et al., "Going deeper with convolutions", CVPR 2015,
table 1. Batch norm follows each convolution, as in Ioffe and Szegedy, "Batch normalization ...",
ICML 2015. The original's stem, which makes 224x224 images eight times smaller, is one 3x3
convolution with the stem's 192 channels, so that 32x32 images keep their size; the auxiliary
classifiers, which batch norm makes superfluous, are left out.
"""

from __future__ import annotations

from typing import NamedTuple

from horizont.networks.layers import (
    Activation,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import INPUT, Network


class Widths(NamedTuple):
    """Channels in a module: the four branches, with the reductions before 3x3 and 5x5."""

    one: int
    reduce_three: int
    three: int
    reduce_five: int
    five: int
    pooled: int


MODULES = {
    "3a": Widths(64, 96, 128, 16, 32, 32),
    "3b": Widths(128, 128, 192, 32, 96, 64),
    "4a": Widths(192, 96, 208, 16, 48, 64),
    "4b": Widths(160, 112, 224, 24, 64, 64),
    "4c": Widths(128, 128, 256, 24, 64, 64),
    "4d": Widths(112, 144, 288, 32, 64, 64),
    "4e": Widths(256, 160, 320, 32, 128, 128),
    "5a": Widths(256, 160, 320, 32, 128, 128),
    "5b": Widths(384, 192, 384, 48, 128, 128),
}


def inception(input_shape: Shape, classes: int) -> Network:
    """Describe the network; the image is halved before modules 4a and 5a."""
    layers = _convolution("stem", INPUT, 192, 3)
    for name, widths in MODULES.items():
        if name in ("4a", "5a"):
            layers.append(MaxPool(name=f"pool{name[0]}", kernel=3, stride=2, padding=1))
        layers += _module(f"inception{name}", layers[-1].name, widths)
    layers += [
        GlobalAveragePool(name="pool"),
        Dropout(name="dropout", rate=0.4),
        Dense(name="fc", features=classes),
    ]
    return Network("inception", input_shape, classes, tuple(layers))


def _module(name: str, source: str, widths: Widths) -> list[Layer]:
    """Describe four branches side by side and their channels in a row."""
    pool = MaxPool(name=f"{name}_pool", sources=(source,), kernel=3, stride=1, padding=1)
    three = _convolution(f"{name}_reduce3", source, widths.reduce_three, 1)
    five = _convolution(f"{name}_reduce5", source, widths.reduce_five, 1)
    branches = [
        _convolution(f"{name}_1x1", source, widths.one, 1),
        [*three, *_convolution(f"{name}_3x3", three[-1].name, widths.three, 3)],
        [*five, *_convolution(f"{name}_5x5", five[-1].name, widths.five, 5)],
        [pool, *_convolution(f"{name}_pooled", pool.name, widths.pooled, 1)],
    ]
    ends = tuple(branch[-1].name for branch in branches)
    return [*(layer for branch in branches for layer in branch), Concat(name=name, sources=ends)]


def _convolution(name: str, source: str, channels: int, kernel: int) -> list[Layer]:
    """Describe a convolution that keeps the size of the image, batch norm and activation."""
    return [
        Conv(
            name=f"{name}_conv",
            sources=(source,),
            channels=channels,
            kernel=kernel,
            padding=kernel // 2,
            bias=False,
        ),
        BatchNorm(name=f"{name}_norm"),
        Activation(name=f"{name}_relu", function="relu"),
    ]
