"""A network as PyTorch modules. PyTorch's layout of weights is the canonical one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from horizont.config.system import DEFAULT
from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.torch.compile import OpaqueMaxPool
from horizont.frameworks.torch.input import DTYPES
from horizont.networks import layers
from horizont.networks.network import INPUT, Network
from horizont.networks.weights import to_canonical_gates, to_native_gates


class BiasedVarianceBatchNorm(nn.BatchNorm2d):
    """Batch norm whose running variance is the biased one.

    PyTorch's own divides by one less than the number of values, the other frameworks do not.
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise (examples, channels, height, width)."""
        if not self.training or self.running_var is None or self.momentum is None:
            return super().forward(images)
        decayed = self.running_var * (1 - self.momentum)
        tracked = self.running_var.clone()  # the backward pass refers to this tensor unchanged
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
        self.running_var.copy_(torch.lerp(decayed, tracked, (values - 1) / values))
        return normal


class ExternalDropout(nn.Module):
    """A dropout whose mask is set from outside."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(1), persistent=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Multiply by the mask."""
        return values * self.mask


class Function(nn.Module):
    """A layer without weights and state: a function of the outputs of its sources."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Apply the function."""
        return self.function(*values)


class StatefulLSTM(nn.LSTM):
    """An LSTM layer that starts each batch with the state at the end of the previous one.

    PyTorch adds two biases; the second stays zero.

    Attributes
    ----------
    state
        Hidden and cell state, (examples, units) each; None stands for zeros.
    """

    state: tuple[torch.Tensor, torch.Tensor] | None = None
    bias_hh_l0: nn.Parameter

    def __init__(self, features: int, units: int) -> None:
        super().__init__(features, units, batch_first=True)
        nn.init.zeros_(self.bias_hh_l0).requires_grad_(False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Process (examples, time steps, features)."""
        initial = None
        if self.state is not None:
            initial = (self.state[0][None], self.state[1][None])
        outputs, (hidden, cell) = super().forward(values, initial)
        self.state = (hidden[0].detach(), cell[0].detach())
        return outputs


class NetworkModule(nn.Module):
    """The layers of a network, applied to the outputs of their sources."""

    def __init__(self, network: Network, variant: str = DEFAULT) -> None:
        super().__init__()
        self.plan: list[tuple[str, tuple[str, ...], nn.Module]] = []
        for context in network.layer_contexts:
            module = _module(context.layer, context.shape)
            if variant == "compiled" and isinstance(module, nn.MaxPool2d):
                module = OpaqueMaxPool(module)
            self.add_module(context.layer.name, module)
            self.plan.append((context.layer.name, context.sources, module))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Compute the scores of images or texts."""
        values = {INPUT: inputs}
        for name, sources, module in self.plan:
            values[name] = module(*(values[source] for source in sources))
        return values[name]


#: Weights of an LSTM: PyTorch's names to canonical names.
LSTM_WEIGHTS = {
    "weight_ih_l0": "input_weight",
    "weight_hh_l0": "hidden_weight",
    "bias_ih_l0": "bias",
}

#: Running statistics: PyTorch's names to canonical names.
STATISTICS = {"running_mean": "mean", "running_var": "variance"}


def build_module(setup: TrainingSetup) -> nn.Module:
    """Build the network with its initial weights and statistics, on the device of the setup."""
    module = NetworkModule(setup.network, setup.variant).to(DTYPES[setup.dtype])
    native = to_native_gates(setup.network, setup.weights)
    with torch.no_grad():
        for name, parameter in named_weights(module):
            parameter.copy_(torch.from_numpy(native[name]))
    set_running_statistics(module, setup.running_statistics)
    return module.to(setup.device)


def named_weights(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the trained weights by canonical name, in the order of the layers."""
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, short = name.rsplit(".", 1)
            yield f"{layer}.{LSTM_WEIGHTS.get(short, short)}", parameter


def named_statistics(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the running statistics by canonical name, in the order of the layers."""
    for name, buffer in module.named_buffers():
        layer, short = name.rsplit(".", 1)
        if short in STATISTICS:
            yield f"{layer}.{STATISTICS[short]}", buffer


def set_running_statistics(module: nn.Module, statistics: Weights) -> None:
    """Set running statistics by canonical name."""
    buffers = dict(named_statistics(module))
    for name, value in statistics.items():
        buffers[name].copy_(torch.from_numpy(value))


def to_canonical(network: Network, tensors: Iterable[tuple[str, torch.Tensor | None]]) -> Weights:
    """Return copies of named weights or gradients in canonical layout."""
    arrays = {name: to_numpy(tensor) for name, tensor in tensors if tensor is not None}
    return to_canonical_gates(network, arrays)


def to_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    """Return a copy as a NumPy array."""
    return tensor.detach().cpu().numpy().copy()


def _module(layer: layers.Layer, shape: layers.Shape) -> nn.Module:
    module: nn.Module
    match layer:
        case layers.Conv():
            module = nn.Conv2d(
                shape[0],
                layer.channels,
                layer.kernel,
                layer.stride,
                layer.padding,
                bias=layer.bias,
            )
        case layers.MaxPool():
            kind = nn.MaxPool2d if layer.mode == "max" else nn.AvgPool2d
            module = kind(layer.kernel, layer.stride, layer.padding)
        case layers.Upsample():
            module = nn.Upsample(scale_factor=layer.factor)
        case layers.BatchNorm():
            module = BiasedVarianceBatchNorm(
                shape[0], eps=layer.epsilon, momentum=1 - layer.momentum_float32
            )
        case layers.Dropout():
            module = ExternalDropout() if layer.external_mask else nn.Dropout(layer.rate)
        case layers.Activation():
            module = nn.Tanh() if layer.function == "tanh" else nn.ReLU()
        case layers.Flatten():
            module = nn.Flatten() if layer.order == "chw" else Function(_flatten_channels_last)
        case layers.Dense():
            module = nn.Linear(shape[-1], layer.features)
        case layers.Embedding():
            module = nn.Embedding(layer.words, layer.features)
        case layers.LSTM():
            module = StatefulLSTM(shape[-1], layer.units)
        case _:
            module = Function(FUNCTIONS[type(layer)])
    return module


def _flatten_channels_last(images: torch.Tensor) -> torch.Tensor:
    """Flatten with the channels varying fastest, as frameworks with channels last do."""
    return images.permute(0, 2, 3, 1).flatten(1)


#: Layers that are a function of their inputs: (examples, channels, height, width).
FUNCTIONS: dict[type[layers.Layer], Callable[..., torch.Tensor]] = {
    layers.GlobalAveragePool: lambda images: images.mean((2, 3)),
    layers.Add: lambda *values: reduce(torch.add, values),
    layers.Concat: lambda *images: torch.cat(images, dim=1),
}
