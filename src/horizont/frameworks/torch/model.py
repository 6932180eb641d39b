"""A described network as PyTorch modules. PyTorch's layout is the canonical one."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from horizont.frameworks.base import Recipe, Weights
from horizont.networks import (
    INPUT,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Network,
    Shape,
    statistic_shapes,
)

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class FlattenLast(nn.Module):
    """Flatten with the channels varying fastest, as a framework with channels last would."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Flatten (examples, channels, height, width) to (examples, features)."""
        return images.permute(0, 2, 3, 1).flatten(1)


class Norm(nn.BatchNorm2d):
    """Batch norm that tracks the variance divided by the number of values.

    PyTorch's own tracks it divided by one less, the other frameworks do not.
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise (examples, channels, height, width)."""
        if not self.training or self.running_var is None or self.momentum is None:
            return super().forward(images)
        kept = self.running_var * (1 - self.momentum)
        tracked = self.running_var.clone()  # the backward pass holds on to it, as it then is
        normal = F.batch_norm(
            images,
            self.running_mean,
            tracked,
            self.weight,
            self.bias,
            training=True,
            momentum=self.momentum,
            eps=self.eps,
        )
        values = images.numel() // images.shape[1]
        self.running_var.copy_(torch.lerp(kept, tracked, (values - 1) / values))
        return normal


class Fed(nn.Module):
    """A dropout whose mask comes from outside."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(1), persistent=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Multiply by the mask."""
        return values * self.mask


class Mean(nn.Module):
    """The mean of each channel."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Average (examples, channels, height, width) to (examples, channels)."""
        return images.mean((2, 3))


class Sum(nn.Module):
    """The sum of several inputs."""

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Add up."""
        total, *others = values
        for value in others:
            total = total + value
        return total


class Join(nn.Module):
    """The channels of several inputs in a row."""

    def forward(self, *images: torch.Tensor) -> torch.Tensor:
        """Concatenate."""
        return torch.cat(images, dim=1)


class Graph(nn.Module):
    """The layers of a network, each applied to what it receives."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.plan: list[tuple[str, tuple[str, ...], nn.Module]] = []
        for place in network.places:
            module = _module(place.layer, place.shape)
            self.add_module(place.layer.name, module)
            self.plan.append((place.layer.name, place.sources, module))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Score images."""
        values = {INPUT: images}
        for name, sources, module in self.plan:
            values[name] = module(*(values[source] for source in sources))
        return values[name]


#: Statistics by their canonical names and as PyTorch calls them.
STATISTICS = {"mean": "running_mean", "variance": "running_var"}


def build_module(recipe: Recipe) -> nn.Module:
    """Build the network and put weights and statistics into it."""
    module = Graph(recipe.network).to(DTYPES[recipe.dtype])
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(recipe.weights[name]))
    put_statistics(module, recipe.statistics)
    return module


def put_statistics(module: nn.Module, statistics: Weights) -> None:
    """Put statistics in the place of those that are tracked."""
    buffers = dict(module.named_buffers())
    for name, value in statistics.items():
        buffers[_native(name)].copy_(torch.from_numpy(value))


def _native(statistic: str) -> str:
    layer, short = statistic.rsplit(".", 1)
    return f"{layer}.{STATISTICS[short]}"


def read_statistics(network: Network, module: nn.Module) -> Weights:
    """Read the tracked statistics by canonical name."""
    buffers = dict(module.named_buffers())
    return {name: to_numpy(buffers[_native(name)]) for name in statistic_shapes(network)}


def read_weights(module: nn.Module) -> Weights:
    """Read the weights by canonical name."""
    return {name: to_numpy(value) for name, value in module.named_parameters()}


def read_gradients(module: nn.Module) -> Weights:
    """Read the gradients by the names of their weights."""
    return {
        name: to_numpy(value.grad)
        for name, value in module.named_parameters()
        if value.grad is not None
    }


def to_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    """Copy a tensor to NumPy."""
    return tensor.detach().cpu().numpy().copy()


def _module(layer: Layer, shape: Shape) -> nn.Module:
    module: nn.Module
    match layer:
        case Conv():
            module = nn.Conv2d(
                shape[0],
                layer.channels,
                layer.kernel,
                layer.stride,
                layer.padding,
                bias=layer.bias,
            )
        case MaxPool():
            kind = nn.MaxPool2d if layer.mode == "max" else nn.AvgPool2d
            module = kind(layer.kernel, layer.stride, layer.padding)
        case GlobalAveragePool():
            module = Mean()
        case BatchNorm():
            module = Norm(shape[0], eps=layer.epsilon, momentum=1 - layer.kept)
        case Dropout():
            module = Fed() if layer.fed else nn.Dropout(layer.rate)
        case Add():
            module = Sum()
        case Concat():
            module = Join()
        case Activation():
            module = nn.Tanh() if layer.function == "tanh" else nn.ReLU()
        case Flatten():
            module = nn.Flatten() if layer.order == "chw" else FlattenLast()
        case Dense():
            module = nn.Linear(shape[0], layer.features)
        case _:
            raise TypeError(f"no PyTorch form of {type(layer).__name__}")
    return module
