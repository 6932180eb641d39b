"""Models of torchvision beside a build of PyTorch that lacks its compiled operators."""

from __future__ import annotations

from typing import Any

import torch

_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def build(name: str, **arguments: Any) -> Any:
    """Return a model by its name, with random weights."""
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **arguments)
