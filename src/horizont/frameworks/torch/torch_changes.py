"""Changes of a model of PyTorch for one run: settings of layers, their inputs, its output.

Each returns a function that undoes it. It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Undo = Callable[[], object]

#: Attributes of modules for settings that are a number or a tuple.
_ATTRIBUTES = {
    "epsilon": "eps", "momentum": "momentum", "stride": "stride", "dilation": "dilation",
    "padding index": "padding_idx",
}  # fmt: skip


#: Dropout of whole branches in torchvision and timm, with the attribute of its probability.
_OF_BRANCHES = {"StochasticDepth": "p", "DropPath": "drop_prob"}


class Namespace:
    """The operations of `functions.py` for tensors of PyTorch."""

    exp, log1p, tanh, erf, abs = torch.exp, torch.log1p, torch.tanh, torch.erf, torch.abs

    @staticmethod
    def maximum(x: Any, low: float) -> Any:
        """Return the larger one of each element and a number."""
        return torch.clamp(x, min=low)

    @staticmethod
    def softmax(x: Any) -> Any:
        """Return the softmax of the last axis."""
        return torch.softmax(x, -1)

    @staticmethod
    def log_softmax(x: Any) -> Any:
        """Return the logarithm of the softmax of the last axis."""
        return torch.log_softmax(x, -1)

    @staticmethod
    def pool(x: Any, kind: str, windows: Any) -> Any:
        """Reduce windows of an image."""
        if not windows.size:
            return x.flatten(2).max(2).values if kind == "max" else x.flatten(2).mean(2)
        around = [size for pair in reversed(windows.padding) for size in pair]
        reach = (windows.size, windows.stride)
        if kind == "max":
            return F.max_pool2d(F.pad(x, around, value=-torch.inf), *reach)
        mean = F.avg_pool2d(F.pad(x, around), *reach)
        return (
            mean
            if windows.counted
            else mean / F.avg_pool2d(F.pad(torch.ones_like(x), around), *reach)
        )

    @staticmethod
    def expand(gate: Any, x: Any) -> Any:
        """Return a number for each channel with the axes of an image."""
        return gate.reshape(*gate.shape[:2], *(1 for _ in x.shape[2:]))

    @staticmethod
    def spatial(x: Any) -> range:
        """Return the axes of space."""
        return range(2, x.ndim)

    @staticmethod
    def linear(x: Any, matrix: Any, axis: int) -> Any:
        """Multiply an axis by a matrix."""
        return (x.movedim(axis, -1) @ torch.as_tensor(matrix).to(x.dtype)).movedim(-1, axis)

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images with channels first or last."""
        return (x.movedim(1, -1) if layout == "last" else x).flatten(1)

    @staticmethod
    def take(x: Any, order: list[int], axis: int) -> Any:
        """Return the slices of an axis in an order."""
        return torch.index_select(x, axis, torch.as_tensor(order))

    @staticmethod
    def minimum(x: Any, high: float) -> Any:
        """Return the smaller one of each element and a number."""
        return torch.clamp(x, max=high)


def set_attribute(module: nn.Module, name: str, value: Any) -> Undo:
    """Set an attribute of a module."""
    before = getattr(module, name)
    setattr(module, name, tuple(value) if isinstance(value, list) else value)
    return lambda: setattr(module, name, before)


def set_padding(module: Any, value: list[list[int]]) -> Undo:
    """Pad the input of a convolution with zeros, in the place of its own padding."""
    around = [size for pair in reversed(value) for size in pair]

    def pad(_: nn.Module, inputs: Any) -> Any:
        return (F.pad(inputs[0], around), *inputs[1:])

    undo = set_attribute(module, "padding", tuple(0 for _ in module.kernel_size))
    hook = module.register_forward_pre_hook(pad)
    return lambda: (hook.remove(), undo())


def set_correction(module: Any, value: int) -> Undo:
    """Divide the running variance by the number of elements, minus a correction of 0 or 1."""
    before: list[Any] = []

    def remember(*_: Any) -> None:
        before[:] = [module.running_var.clone()]

    def correct(_: nn.Module, inputs: Any, __: Any) -> None:
        if module.training and value == 0:
            count = inputs[0].numel() // inputs[0].shape[1]
            rest = before[0] * (1 - module.momentum)
            # The gradient of the batch statistics does not depend on it: no new version.
            module.running_var.data.sub_(rest).mul_((count - 1) / count).add_(rest)

    hooks = [module.register_forward_pre_hook(remember), module.register_forward_hook(correct)]
    return lambda: [hook.remove() for hook in hooks]


def set_biases(module: nn.Module, part: str) -> Undo:
    """Train only one of the two biases of a recurrent layer."""
    tensor = getattr(module, f"bias_hh{part}")
    tensor.requires_grad_(False)
    return lambda: tensor.requires_grad_(True)


def set_frozen(tensors: dict[str, Any], value: list[str]) -> Undo:
    """Disable the training of some roles, and enable that of the others."""
    every = [(role, tensor) for role, each in tensors.items() for tensor in each]
    before = [(tensor, tensor.requires_grad) for _, tensor in every]
    for role, tensor in every:
        if role not in ("mean", "variance"):
            tensor.requires_grad_(role not in value)
    return lambda: [tensor.requires_grad_(was) for tensor, was in before]


def change(entry: Any, key: str, value: Any) -> Undo:
    """Change a setting of a layer."""
    if key == "padding":
        return set_padding(entry.module, value)
    if key == "variance correction":
        return set_correction(entry.module, value)
    if key == "biases":
        return set_biases(entry.module, entry.part)
    if key == "frozen":
        return set_frozen(entry.tensors, value)
    return set_attribute(entry.module, _ATTRIBUTES[key], value)


def no_dropout(model: nn.Module) -> list[Undo]:
    """Disable dropout, whose random numbers no other framework draws."""
    undo = []
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            undo.append(set_attribute(module, "p", 0.0))
        elif type(module).__name__ in _OF_BRANCHES:
            name = _OF_BRANCHES[type(module).__name__]
            undo.append(set_attribute(module, name, 0.0))
        elif isinstance(module, (nn.LSTM, nn.GRU, nn.RNN)) and module.dropout:
            undo.append(set_attribute(module, "dropout", 0.0))
    return undo
