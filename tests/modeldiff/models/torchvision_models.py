"""Models of torchvision beside a build of PyTorch that lacks its compiled operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def build(name: str, **arguments: Any) -> Any:
    """Return a model by its name, with random weights."""
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **arguments)


def planted(name: str, fault: str, at: float = 0.5) -> Any:
    """Return a model with a fault in a layer, which is given by its place from 0 to 1."""
    model = build(name)
    FAULTS[fault](model, at)
    return model


def _pick(model: nn.Module, types: Any, at: float, condition: Any = None) -> Any:
    """Return one of the layers of a type."""
    found = [each for each in model.modules() if isinstance(each, types)]
    found = [each for each in found if condition is None or condition(each)]
    return found[round(at * (len(found) - 1))]


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in model.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)


def _activation(new: nn.Module) -> Any:
    types = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU)
    return lambda model, at: _replace(model, _pick(model, types, at), new)


def _pooling(model: nn.Module, at: float) -> None:
    old = _pick(model, nn.MaxPool2d, at)
    _replace(model, old, nn.AvgPool2d(old.kernel_size, old.stride, old.padding))


def _dilation(model: nn.Module, at: float) -> None:
    layer = _pick(
        model, nn.Conv2d, at, lambda each: each.kernel_size == (3, 3) and each.stride == (1, 1)
    )
    layer.dilation, layer.padding = (2, 2), (2, 2)


def _branch(model: nn.Module, at: float) -> None:
    """Multiply the branch of a block by a factor before it is added."""
    blocks = [each for each in model.modules() if getattr(each, "use_res_connect", False)]
    block: Any = blocks[round(at * (len(blocks) - 1))]
    block.forward = lambda x: x + 0.5 * block.conv(x)


def _norm(**values: float) -> Any:
    def change(model: nn.Module, at: float) -> None:
        layer = _pick(model, nn.BatchNorm2d, at)
        for name, value in values.items():
            setattr(layer, name, value)

    return change


def _result(function: Any) -> Any:
    return lambda model, at: model.register_forward_hook(lambda *args: function(args[-1]))


def _input(function: Any) -> Any:
    return lambda model, at: model.register_forward_pre_hook(lambda _, x: (function(x[0]),))


def _before(function: Any) -> Any:
    """Change the input of a layer."""

    def change(model: nn.Module, at: float) -> None:
        layer = _pick(model, nn.Conv2d, at)
        layer.register_forward_pre_hook(lambda _, x: (function(x[0]),))

    return change


FAULTS: dict[str, Any] = {
    "epsilon": _norm(eps=1e-3),
    "momentum": _norm(momentum=0.01),
    "ELU": _activation(nn.ELU()),
    "leaky ReLU": _activation(nn.LeakyReLU(0.2)),
    "GELU": _activation(nn.GELU()),
    "no activation": _activation(nn.Identity()),
    "pooling": _pooling,
    "dilation": _dilation,
    "branch": _branch,
    "frozen": lambda model, at: _pick(model, nn.Conv2d, at).weight.requires_grad_(False),
    "pixels": _input(lambda x: x / 255.0),
    "BGR": _input(lambda x: x.flip(1)),
    "softmax": _result(lambda x: x.softmax(1)),
    # No repair of these is known.
    "sine": _before(torch.sin),
    "half precision": _before(lambda x: x.half().to(x.dtype)),
    "no gradient": _before(torch.detach),
}
