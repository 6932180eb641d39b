"""A network as PyTorch modules. PyTorch's layout of weights is the canonical one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from horizont.config.system import DEFAULT
from horizont.frameworks.base import TrainingSetup, Weights
from horizont.frameworks.torch.compile import OpaqueMaxPool
from horizont.frameworks.torch.input import DTYPES
from horizont.networks.layers import (
    GATES,
    LSTM,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import INPUT, Network
from horizont.networks.weights import reorder_gates, statistic_shapes


class FlattenChannelsLast(nn.Module):
    """Flatten with the channels varying fastest, as frameworks with channels last do."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Flatten (examples, channels, height, width) to (examples, features)."""
        return images.permute(0, 2, 3, 1).flatten(1)


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


class GlobalAverage(nn.Module):
    """The mean of each channel."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Average (examples, channels, height, width) to (examples, channels)."""
        return images.mean((2, 3))


class Addition(nn.Module):
    """The sum of several inputs."""

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Add up."""
        total, *others = values
        for value in others:
            total = total + value
        return total


class Concatenation(nn.Module):
    """The channels of several inputs, concatenated."""

    def forward(self, *images: torch.Tensor) -> torch.Tensor:
        """Concatenate."""
        return torch.cat(images, dim=1)


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

    def __init__(self, features: int, layer: LSTM) -> None:
        super().__init__(features, layer.units, batch_first=True)
        self.gates = layer.gates
        nn.init.zeros_(self.bias_hh_l0).requires_grad_(False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
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

#: Running statistics: canonical names to PyTorch's names.
STATISTICS = {"mean": "running_mean", "variance": "running_var"}


def build_module(setup: TrainingSetup) -> nn.Module:
    """Build the network with its initial weights and statistics."""
    module = NetworkModule(setup.network, setup.variant).to(DTYPES[setup.dtype])
    with torch.no_grad():
        for name, parameter in named_weights(module):
            value = setup.weights[name]
            gates = _gate_order(module, name)
            native = reorder_gates(value, gates, GATES) if gates else value
            parameter.copy_(torch.from_numpy(native))
    set_running_statistics(module, setup.running_statistics)
    return module


def named_weights(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the trained weights by canonical name, in the order of the layers."""
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            layer, short = name.rsplit(".", 1)
            yield f"{layer}.{LSTM_WEIGHTS.get(short, short)}", parameter


def _gate_order(module: nn.Module, weight: str) -> str:
    """Return the canonical gate order of a weight; "" for a weight without gates."""
    layer = module.get_submodule(weight.rsplit(".", 1)[0])
    return layer.gates if isinstance(layer, StatefulLSTM) else ""


def recurrent_layers(module: nn.Module) -> dict[str, StatefulLSTM]:
    """Return the layers that carry a state, by name."""
    return {
        name: layer for name, layer in module.named_modules() if isinstance(layer, StatefulLSTM)
    }


def set_running_statistics(module: nn.Module, statistics: Weights) -> None:
    """Set running statistics by canonical name."""
    buffers = dict(module.named_buffers())
    for name, value in statistics.items():
        buffers[_native_name(name)].copy_(torch.from_numpy(value))


def _native_name(statistic: str) -> str:
    layer, short = statistic.rsplit(".", 1)
    return f"{layer}.{STATISTICS[short]}"


def read_running_statistics(network: Network, module: nn.Module) -> Weights:
    """Return copies of the running statistics by canonical name."""
    buffers = dict(module.named_buffers())
    return {name: to_numpy(buffers[_native_name(name)]) for name in statistic_shapes(network)}


def read_weights(module: nn.Module) -> Weights:
    """Return copies of the weights by canonical name."""
    return {name: _to_canonical(module, name, value) for name, value in named_weights(module)}


def read_gradients(module: nn.Module) -> Weights:
    """Return copies of the gradients by canonical name."""
    return {
        name: _to_canonical(module, name, value.grad)
        for name, value in named_weights(module)
        if value.grad is not None
    }


def _to_canonical(module: nn.Module, name: str, tensor: torch.Tensor) -> NDArray[Any]:
    gates = _gate_order(module, name)
    return reorder_gates(to_numpy(tensor), GATES, gates) if gates else to_numpy(tensor)


def to_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    """Return a copy as a NumPy array."""
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
        case BatchNorm():
            module = BiasedVarianceBatchNorm(
                shape[0], eps=layer.epsilon, momentum=1 - layer.momentum_float32
            )
        case Dropout():
            module = ExternalDropout() if layer.external_mask else nn.Dropout(layer.rate)
        case Activation():
            module = nn.Tanh() if layer.function == "tanh" else nn.ReLU()
        case Flatten():
            module = nn.Flatten() if layer.order == "chw" else FlattenChannelsLast()
        case Dense():
            module = nn.Linear(shape[-1], layer.features)
        case Embedding():
            module = nn.Embedding(layer.words, layer.features)
        case LSTM():
            module = StatefulLSTM(shape[-1], layer)
        case _:
            module = PARAMETERLESS_LAYERS[type(layer)]()
    return module


#: Layers without parameters.
PARAMETERLESS_LAYERS: dict[type[Layer], type[nn.Module]] = {
    GlobalAveragePool: GlobalAverage,
    Add: Addition,
    Concat: Concatenation,
}
