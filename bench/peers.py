"""ResNets and Inception as each framework provides them, to compare ours with."""

from __future__ import annotations

from typing import Any

from bench import plain


def torch_peer(network: str) -> Any:
    """Build one of our networks from PyTorch's modules."""
    if network in plain.NETWORKS:
        return plain.torch_plain(network)
    if network == "inception":
        return torch_inception(10)
    return torch_resnet(int(network[-2:]), 10)


#: Channels of the modules: 1x1, before 3x3, 3x3, before 5x5, 5x5, after the pool; "M" halves.
INCEPTION: list[Any] = [
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    "M",
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    "M",
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
]


def torch_inception(classes: int) -> Any:
    """Build GoogLeNet with batch norm, for 32x32 images, of plain modules."""
    import torch
    from torch import nn

    def normed(inside: int, outside: int, kernel: int) -> Any:
        conv = nn.Conv2d(inside, outside, kernel, padding=kernel // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outside), nn.ReLU())

    class Module(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self, inside: int, widths: tuple[int, ...]) -> None:
            super().__init__()
            one, before_three, three, before_five, five, pooled = widths
            self.one = normed(inside, one, 1)
            self.three = nn.Sequential(
                normed(inside, before_three, 1), normed(before_three, three, 3)
            )
            self.five = nn.Sequential(normed(inside, before_five, 1), normed(before_five, five, 5))
            self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), normed(inside, pooled, 1))

        def forward(self, images: Any) -> Any:
            branches = (self.one, self.three, self.five, self.pooled)
            return torch.cat([branch(images) for branch in branches], dim=1)

    layers, inside = [normed(3, 192, 3)], 192
    for widths in INCEPTION:
        if widths == "M":
            layers.append(nn.MaxPool2d(3, 2, 1))
        else:
            layers.append(Module(inside, widths))
            inside = widths[0] + widths[2] + widths[4] + widths[5]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(inside, classes)]
    return nn.Sequential(*layers, *head)


def torch_resnet(depth: int, classes: int) -> Any:
    """Build a ResNet of plain modules, as it is written by hand in PyTorch."""
    from torch import nn
    from torch.nn import functional as F

    def normed(inside: int, outside: int, kernel: int, stride: int = 1) -> Any:
        conv = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outside))

    class Block(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self, inside: int, width: int, stride: int) -> None:
            super().__init__()
            wide = depth == 50
            outside = 4 * width if wide else width
            self.first = normed(inside, width, 1 if wide else 3, stride)
            self.second = normed(width, width, 3)
            self.third = normed(width, outside, 1) if wide else None
            changed = stride > 1 or inside != outside
            self.short = normed(inside, outside, 1, stride) if changed else nn.Identity()

        def forward(self, images: Any) -> Any:
            path = self.second(F.relu(self.first(images)))
            if self.third is not None:
                path = self.third(F.relu(path))
            return F.relu(path + self.short(images))

    layers: list[Any] = [normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, count in enumerate((3, 4, 6, 3) if depth == 50 else (2, 2, 2, 2)):
        for number in range(count):
            layers.append(Block(inside, 64 * 2**stage, 2 if stage and not number else 1))
            inside = 64 * 2**stage * (4 if depth == 50 else 1)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes)]
    return nn.Sequential(*layers, *head)


def keras_resnet50(classes: int) -> Any:
    """Build the ResNet-50 of Keras' applications."""
    import keras

    return keras.applications.ResNet50(
        weights=None, input_shape=(32, 32, 3), classes=classes, classifier_activation=None
    )


def gluon_resnet(depth: int, classes: int) -> Any:
    """Build the ResNet of Gluon's model zoo, with static allocation as ours."""
    import mxnet as mx

    make = {18: mx.gluon.model_zoo.vision.resnet18_v1, 50: mx.gluon.model_zoo.vision.resnet50_v1}
    net = make[depth](classes=classes)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    return net
