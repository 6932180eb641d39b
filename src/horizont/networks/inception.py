"""GoogLeNet with batch norm, for 32x32 images.

The inception modules are those of Szegedy et al., "Going deeper with convolutions", CVPR 2015,
table 1. Batch norm follows each convolution, as in Ioffe and Szegedy, "Batch normalization ...",
ICML 2015. The stem of the original, which reduces 224x224 images to an eighth, is replaced by a
3x3 convolution with the 192 channels of the stem, so that 32x32 images keep their size; the
auxiliary classifiers, which batch norm makes superfluous, are omitted.
"""

from __future__ import annotations

from typing import NamedTuple

from horizont.networks.layers import (
    Concat,
    Dense,
    Dropout,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
    conv_norm,
)
from horizont.networks.network import INPUT, Network


class BranchChannels(NamedTuple):
    """Channels of the four branches of a module, and of the reductions before 3x3 and 5x5."""

    one: int
    reduce_three: int
    three: int
    reduce_five: int
    five: int
    pooled: int


INCEPTION_MODULES = {
    "3a": BranchChannels(64, 96, 128, 16, 32, 32),
    "3b": BranchChannels(128, 128, 192, 32, 96, 64),
    "4a": BranchChannels(192, 96, 208, 16, 48, 64),
    "4b": BranchChannels(160, 112, 224, 24, 64, 64),
    "4c": BranchChannels(128, 128, 256, 24, 64, 64),
    "4d": BranchChannels(112, 144, 288, 32, 64, 64),
    "4e": BranchChannels(256, 160, 320, 32, 128, 128),
    "5a": BranchChannels(256, 160, 320, 32, 128, 128),
    "5b": BranchChannels(384, 192, 384, 48, 128, 128),
}


def build_inception(input_shape: Shape, classes: int) -> Network:
    """Build the network; the feature map is halved before modules 4a and 5a."""
    layers = conv_norm("stem", INPUT, 192, 3)
    for name, channels in INCEPTION_MODULES.items():
        if name in ("4a", "5a"):
            layers.append(MaxPool(name=f"pool{name[0]}", kernel=3, stride=2, padding=1))
        layers += _inception_module(f"inception{name}", layers[-1].name, channels)
    layers += [
        GlobalAveragePool(name="pool"),
        Dropout(name="dropout", rate=0.4),
        Dense(name="fc", features=classes),
    ]
    return Network("inception", input_shape, classes, tuple(layers))


def _inception_module(name: str, source: str, channels: BranchChannels) -> list[Layer]:
    """Return four parallel branches and their concatenation."""
    pool = MaxPool(name=f"{name}_pool", sources=(source,), kernel=3, stride=1, padding=1)
    three = conv_norm(f"{name}_reduce3", source, channels.reduce_three, 1)
    five = conv_norm(f"{name}_reduce5", source, channels.reduce_five, 1)
    branches = [
        conv_norm(f"{name}_1x1", source, channels.one, 1),
        [*three, *conv_norm(f"{name}_3x3", three[-1].name, channels.three, 3)],
        [*five, *conv_norm(f"{name}_5x5", five[-1].name, channels.five, 5)],
        [pool, *conv_norm(f"{name}_pooled", pool.name, channels.pooled, 1)],
    ]
    ends = tuple(branch[-1].name for branch in branches)
    return [*(layer for branch in branches for layer in branch), Concat(name=name, sources=ends)]
