"""A described network as PyTorch modules. PyTorch's layout is the canonical one."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from horizont.frameworks.base import Weights
from horizont.networks import Activation, Conv, Dense, Flatten, Layer, MaxPool, Network, Shape

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class FlattenLast(nn.Module):
    """Flatten with the channels varying fastest, as a framework with channels last would."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Flatten (examples, channels, height, width) to (examples, features)."""
        return images.permute(0, 2, 3, 1).flatten(1)


def build_module(network: Network, weights: Weights, dtype: str) -> nn.Sequential:
    """Build the network and put the given weights into it."""
    layers = OrderedDict((layer.name, _module(layer, shape)) for layer, shape in network.inputs())
    module = nn.Sequential(layers).to(DTYPES[dtype])
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return module


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
    match layer:
        case Conv():
            return nn.Conv2d(shape[0], layer.channels, layer.kernel, layer.stride, layer.padding)
        case MaxPool():
            return nn.MaxPool2d(layer.kernel, layer.stride)
        case Activation():
            return nn.Tanh() if layer.function == "tanh" else nn.ReLU()
        case Flatten():
            return nn.Flatten() if layer.order == "chw" else FlattenLast()
        case Dense():
            return nn.Linear(shape[0], layer.features)
    raise TypeError(f"no PyTorch form of {type(layer).__name__}")
