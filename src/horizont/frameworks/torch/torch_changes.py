"""Changes of a model of PyTorch for one run: settings of layers, their inputs, its output.

Each returns a function that undoes it. It imports nothing of Horizont.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .torch_evaluation import FUNCTIONS as DROPOUT_FUNCTIONS
from .torch_layers import epsilon_name
from .torch_sequences import set_initial_state, set_mask

Undo = Callable[[], object]

#: Attributes of modules for settings that are a number or a tuple.
_ATTRIBUTES = {
    "momentum": "momentum", "stride": "stride", "dilation": "dilation",
    "padding index": "padding_idx", "padding mode": "padding_mode",
}  # fmt: skip


#: Settings that a layer shows and that cannot be changed here.
FIXED = ("reset gate", "power iteration", "activation", "gates")


class Namespace:
    """The operations of `functions.py` for tensors of PyTorch."""

    exp, log1p, tanh, erf, abs = torch.exp, torch.log1p, torch.tanh, torch.erf, torch.abs
    matmul, reshape, swapaxes = torch.matmul, torch.reshape, torch.swapaxes
    stop = torch.Tensor.detach

    @staticmethod
    def like(array: Any, x: Any) -> Any:
        """Return an array as a tensor of the type of another one."""
        return torch.as_tensor(array).to(x.dtype)

    @staticmethod
    def maximum(x: Any, low: Any) -> Any:
        """Return the larger one of each element and a number, or that of another tensor."""
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
    def rounded(x: Any, dtype: str) -> Any:
        """Round elements to those of a type with 16 bits."""
        return x.to(getattr(torch, dtype)).to(x.dtype)

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
        return (x.movedim(axis, -1) @ Namespace.like(matrix, x)).movedim(-1, axis)

    @staticmethod
    def flatten(x: Any, layout: str) -> Any:
        """Flatten images with channels first or last."""
        return (x.movedim(1, -1) if layout == "last" else x).flatten(1)

    @staticmethod
    def unflatten(x: Any, sizes: list[int], layout: str) -> Any:
        """Return images of sizes ``CHW`` from features with channels first or last."""
        channels, *space = sizes
        if layout == "last":
            return x.reshape(len(x), *space, channels).movedim(-1, 1)
        return x.reshape(len(x), *sizes)

    @staticmethod
    def take(x: Any, order: list[int], axis: int) -> Any:
        """Return the slices of an axis in an order."""
        return torch.index_select(x, axis, torch.as_tensor(order))

    @staticmethod
    def minimum(x: Any, high: float) -> Any:
        """Return the smaller one of each element and a number."""
        return torch.clamp(x, max=high)


class Overrides(TorchFunctionMode):
    """Disable dropout where it is a function, and compute doubles in double precision.

    The gradient of the hard sigmoid has a constant that PyTorch rounds to single precision.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch."""
        kwargs = dict(kwargs or {})
        value = args[0] if args else kwargs.get("input")
        if func in DROPOUT_FUNCTIONS:
            return value
        if func is F.hardsigmoid and value.dtype is torch.float64:
            return torch.clamp(value / 6.0 + 0.5, 0.0, 1.0)
        if func is F.scaled_dot_product_attention:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs.update({"dropout_p": 0.0} if "dropout_p" in kwargs else {})
        return func(*args, **kwargs)


@contextlib.contextmanager
def all_layers() -> Iterator[None]:
    """Execute all layers of a transformer, which PyTorch may compute at once in evaluation."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def own_tensors(entries: Iterable[Any], prefix: str) -> dict[str, Any]:
    """Return the parameters that belong to no layer, by a prefix and their names."""
    return {
        f"{prefix}{entry.name}": entry.module._parameters[entry.role]
        for entry in entries
        if entry.role
    }


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


def set_cropping(module: Any, value: list[list[int]]) -> Undo:
    """Remove rows before and after each axis of the output of a transposed convolution."""
    around = [-size for pair in reversed(value) for size in pair]
    none = tuple(0 for _ in module.kernel_size)
    undo = [set_attribute(module, name, none) for name in ("padding", "output_padding")]

    def crop(_: nn.Module, __: Any, output: Any) -> Any:
        if module.bias is None:
            return F.pad(output, around)
        # Rows that no pixel reaches have the bias.
        bias = module.bias.reshape(-1, *(1 for _ in none))
        return F.pad(output - bias, around) + bias

    undo.append(module.register_forward_hook(crop).remove)
    return lambda: [each() for each in undo]


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


def set_statistics(module: nn.Module, value: str) -> Undo:
    """Set which statistics a norm uses in a run: of the batch, or the running ones."""

    def choose(*_: Any) -> None:
        # A model may override `train`, so that the mode is set again here.
        module.training = value == "of the batch"

    return module.register_forward_pre_hook(choose).remove


def set_norm(entry: Any, value: dict[str, Any]) -> Undo:
    """Make a norm of the last axis another one; the first of the roles multiplies, another adds."""
    scale, *offsets = (entry.tensors[role][0] for role in value["roles"])

    def normalize(_: nn.Module, inputs: Any, __: Any) -> Any:
        x = inputs[0]
        x = x - x.mean(-1, keepdim=True) if value["centered"] else x
        squares = x.square().mean(-1, keepdim=True)
        if value["outside"]:
            divisor = value["slope"] * squares.sqrt() + value["epsilon"]
        else:
            divisor = torch.sqrt(value["slope"] * squares + value["epsilon"])
        return sum(offsets, scale * (x / divisor))

    return entry.module.register_forward_hook(normalize).remove


def set_parts(module: nn.Module, value: int) -> Undo:
    """Apply a norm to each part of the batch, as processes do; the statistics are of the first."""
    forward, buffers = module.forward, list(module.buffers())

    def by_parts(x: Any) -> Any:
        if not module.training:
            return forward(x)
        first, *others = x.chunk(value)
        outputs = [forward(first)]
        after = [each.clone() for each in buffers]
        outputs += [forward(each) for each in others]
        for buffer, each in zip(buffers, after, strict=True):
            buffer.data.copy_(each)  # no new version: no gradient depends on it
        return torch.cat(outputs)

    module.forward = by_parts
    return lambda: delattr(module, "forward")


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


def set_scale(module: Any, value: float) -> Undo:
    """Multiply the products of queries and keys by another factor."""
    names = [name for name in ("in_proj_weight", "in_proj_bias") if name in module._parameters]

    def before(*_: Any) -> None:
        for name in names:
            tensor = module._parameters[name]
            if tensor is not None:
                factors = torch.ones(len(tensor), dtype=tensor.dtype)
                factors[: module.embed_dim] = value * module.head_dim**0.5
                shape = (-1, *(1 for _ in tensor.shape[1:]))
                # An attribute of the module hides the parameter, through which gradients flow.
                module.__dict__[name] = tensor * factors.reshape(shape)

    def after(*_: Any) -> None:
        for name in names:
            module.__dict__.pop(name, None)

    hooks = [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    return lambda: [hook.remove() for hook in hooks]


def set_heads(module: Any, value: int) -> Undo:
    """Divide the features of attention into another number of heads."""
    undo = [
        set_attribute(module, "head_dim", module.embed_dim // value),
        set_attribute(module, "num_heads", value),
    ]
    return lambda: [each() for each in undo]


#: What changes a setting that is not an attribute, from the layer and the value.
_FUNCTIONS: dict[str, Callable[[Any, Any], Undo]] = {
    "padding": lambda entry, value: set_padding(entry.module, value),
    "cropping": lambda entry, value: set_cropping(entry.module, value),
    "variance correction": lambda entry, value: set_correction(entry.module, value),
    "parts": lambda entry, value: set_parts(entry.module, value),
    "heads": lambda entry, value: set_heads(entry.module, value),
    "scale": lambda entry, value: set_scale(entry.module, value),
    "biases": lambda entry, _: set_biases(entry.module, entry.part),
    "frozen": lambda entry, value: set_frozen(entry.tensors, value),
    "form of a norm": set_norm,
    "initial state": lambda entry, _: set_initial_state(entry.module),
    "first axis": lambda entry, value: set_attribute(
        entry.module, "batch_first", value == "examples"
    ),
    "mask": lambda entry, value: set_mask(entry.module, value),
    "groups": lambda entry, value: set_attribute(entry.module, "num_groups", value),
    "epsilon": lambda entry, value: set_attribute(entry.module, epsilon_name(entry.module), value),
}


def change(entry: Any, key: str, value: Any, training: bool) -> Undo:
    """Change a setting of a layer for a run in training or in evaluation."""
    if key in ("statistics", "statistics in evaluation"):
        is_meant = training == (key == "statistics")
        return set_statistics(entry.module, value) if is_meant else lambda: None
    if key in _FUNCTIONS:
        return _FUNCTIONS[key](entry, value)
    return set_attribute(entry.module, _ATTRIBUTES[key], value)
