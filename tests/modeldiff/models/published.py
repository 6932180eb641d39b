"""Models of published packages of PyTorch by name, with random weights.

torchvision is installed beside a build of PyTorch that lacks its compiled operators.
"""

from __future__ import annotations

from typing import Any

import torch

_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def torchvision(name: str, **arguments: Any) -> Any:
    """Return a model of torchvision."""
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **arguments)


def torchvision_class(name: str, **arguments: Any) -> Any:
    """Return an instance of a class of torchvision."""
    import torchvision

    return getattr(torchvision.models, name)(**arguments)


def timm(name: str, **arguments: Any) -> Any:
    """Return a model of timm."""
    import timm

    return timm.create_model(name, pretrained=False, **arguments)


def transformers(name: str, **arguments: Any) -> Any:
    """Return a model of transformers from the values of its configuration."""
    import transformers

    model = getattr(transformers, name)
    return model(model.config_class(**arguments))


def efficientnet_pytorch(name: str) -> Any:
    """Return a model of efficientnet_pytorch, without its dropout of branches."""
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name(name, drop_connect_rate=0.0)
