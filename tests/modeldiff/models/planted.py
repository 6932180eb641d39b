"""Published models with one fault each, which is easily overlooked in a port."""

from __future__ import annotations

from typing import Any

import torch
from published import torchvision, transformers
from torch import nn
from torch.nn import functional as F


def build(network: str) -> Any:
    """Return a network by its name, with random weights."""
    if network == "bert":
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
        return transformers("BertModel", num_hidden_layers=3, **sizes)
    return torchvision(network)


def planted(network: str, fault: str, at: float = 0.5) -> Any:
    """Return a network with a fault in a layer, which is given by its place from 0 to 1."""
    model = build(network)
    FAULTS[fault](model, at)
    return model


def _pick(model: nn.Module, types: Any, at: float, condition: Any = None) -> Any:
    """Return one of the layers of a type, or of the types with a name."""
    found = [
        each
        for each in model.modules()
        if (type(each).__name__ == types if isinstance(types, str) else isinstance(each, types))
    ]
    found = [each for each in found if condition is None or condition(each)]
    return found[round(at * (len(found) - 1))]


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in model.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)


def _activation(new: nn.Module) -> Any:
    types = (nn.ReLU, nn.ReLU6, nn.Hardswish, nn.SiLU, nn.GELU)

    def change(model: nn.Module, at: float) -> None:
        inside = {id(m.activation) for m in model.modules() if hasattr(m, "scale_activation")}
        if any(isinstance(each, types) for each in model.modules()):
            old = _pick(model, types, at, lambda each: id(each) not in inside)
            _replace(model, old, new)
        else:
            _pick(model, "BertIntermediate", at).intermediate_act_fn = new

    return change


def _pooling(model: nn.Module, at: float) -> None:
    old = _pick(model, nn.MaxPool2d, at)
    _replace(model, old, nn.AvgPool2d(old.kernel_size, old.stride, old.padding))


def _global_pooling(model: nn.Module, at: float) -> None:
    for each in model.modules():
        if hasattr(each, "avgpool"):
            each.avgpool = nn.AdaptiveMaxPool2d(1)


def _is_plain(layer: nn.Module) -> bool:
    return layer.kernel_size == (3, 3) and layer.stride == (1, 1)  # type: ignore[attr-defined]


def _dilation(model: nn.Module, at: float) -> None:
    layer = _pick(model, nn.Conv2d, at, _is_plain)
    layer.dilation, layer.padding = (2, 2), (2, 2)


def _padding_mode(model: nn.Module, at: float) -> None:
    _pick(model, nn.Conv2d, at, _is_plain).padding_mode = "reflect"


def _padding_side(model: nn.Module, at: float) -> None:
    """Pad a convolution with a stride after the image only, as TensorFlow does."""
    layer = _pick(
        model, nn.Conv2d, at, lambda each: each.kernel_size == (3, 3) and each.stride == (2, 2)
    )
    layer.padding = (0, 0)
    layer.register_forward_pre_hook(lambda _, x: (F.pad(x[0], (0, 1, 0, 1)),))


def _branch(model: nn.Module, at: float) -> None:
    """Multiply the branch of a block by a factor before it is added."""
    block = _pick(model, nn.Module, at, lambda each: getattr(each, "use_res_connect", False))
    block.forward = lambda x: x + 0.5 * block.conv(x)


def _shortcut(model: nn.Module, at: float) -> None:
    """Remove the connection around a block of a residual network."""
    block = _pick(model, "BasicBlock", at, lambda each: each.downsample is None)

    def forward(x: Any) -> Any:
        inner = block.relu(block.bn1(block.conv1(x)))
        return block.relu(block.bn2(block.conv2(inner)))

    block.forward = forward


def _gate(name: str, new: nn.Module) -> Any:
    def change(model: nn.Module, at: float) -> None:
        block = _pick(model, nn.Module, at, lambda each: hasattr(each, "scale_activation"))
        setattr(block, name, new)

    return change


def _norm(kind: Any, **values: float) -> Any:
    def change(model: nn.Module, at: float) -> None:
        layer = _pick(model, kind, at)
        for name, value in values.items():
            setattr(layer, name, value)

    return change


def _frozen_norm(model: nn.Module, at: float) -> None:
    """Make a norm use its running statistics in training, too."""
    layer = _pick(model, nn.BatchNorm2d, at)
    layer.train = lambda mode=True: nn.Module.train(layer, False)


def _frozen(kind: Any) -> Any:
    return lambda model, at: _pick(model, kind, at).weight.requires_grad_(False)


def _attention(heads: int = 4, scale: float = 0.25, causal: bool = False) -> Any:
    """Compute attention with other settings; without arguments, those of the model."""

    def change(model: nn.Module, at: float) -> None:
        layer = _pick(model, nn.Module, at, lambda each: hasattr(each, "query"))

        def forward(states: Any, *_: Any, **__: Any) -> Any:
            q, k, v = (
                each(states).unflatten(2, (heads, -1)).transpose(1, 2)
                for each in (layer.query, layer.key, layer.value)
            )
            scores = scale * q @ k.transpose(2, 3)
            if causal:
                hidden = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
                scores = scores.masked_fill(hidden, -torch.inf)
            chosen = scores.softmax(-1)
            return (chosen @ v).transpose(1, 2).flatten(2), chosen

        layer.forward = forward

    return change


def _result(function: Any) -> Any:
    return lambda model, at: model.register_forward_hook(lambda *args: function(args[-1]))


def _input(function: Any) -> Any:
    return lambda model, at: model.register_forward_pre_hook(lambda _, x: (function(x[0]),))


def _before(function: Any) -> Any:
    """Change the input of a convolution or, where there is none, of a matrix."""

    def change(model: nn.Module, at: float) -> None:
        has_images = any(isinstance(each, nn.Conv2d) for each in model.modules())
        layer = _pick(model, nn.Conv2d if has_images else nn.Linear, at)
        layer.register_forward_pre_hook(lambda _, x: (function(x[0]),))

    return change


FAULTS: dict[str, Any] = {
    "epsilon": _norm(nn.BatchNorm2d, eps=1e-3),
    "epsilon of a layer norm": _norm(nn.LayerNorm, eps=1e-3),
    "momentum": _norm(nn.BatchNorm2d, momentum=0.01),
    "frozen norm": _frozen_norm,
    "ELU": _activation(nn.ELU()),
    "leaky ReLU": _activation(nn.LeakyReLU(0.2)),
    "GELU": _activation(nn.GELU()),
    "GELU by tanh": _activation(nn.GELU("tanh")),
    "no activation": _activation(nn.Identity()),
    "pooling": _pooling,
    "global pooling": _global_pooling,
    "dilation": _dilation,
    "padding mode": _padding_mode,
    "padding side": _padding_side,
    "branch": _branch,
    "shortcut": _shortcut,
    "gate": _gate("scale_activation", nn.Hardsigmoid()),
    "activation of a gate": _gate("activation", nn.Tanh()),
    "frozen": _frozen(nn.Conv2d),
    "frozen matrix": _frozen(nn.Linear),
    "frozen table": _frozen(nn.Embedding),
    "no scale": _attention(scale=1.0),
    "heads": _attention(heads=8, scale=8**-0.5),
    "causal": _attention(causal=True),
    "pixels": _input(lambda x: x / 255.0),
    "BGR": _input(lambda x: x.flip(1)),
    "softmax": _result(lambda x: x.softmax(1)),
    "half precision": _before(lambda x: x.half().to(x.dtype)),
    "bfloat16": _before(lambda x: x.bfloat16().to(x.dtype)),
    "no gradient": _before(torch.detach),
    # No repair of this is known.
    "sine": _before(torch.sin),
}
