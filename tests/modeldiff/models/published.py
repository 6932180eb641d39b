"""Models of published packages of PyTorch by name, with random weights.

torchvision is installed beside a build of PyTorch that lacks its compiled operators.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import torch

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if hasattr(torch.ops.torchvision, _name):  # a process may load this file as two modules
        continue
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


def exported(package: str, name: str, sizes: str, legacy: bool = False, **arguments: Any) -> Any:
    """Return the graph that PyTorch exports of a model, by its exporter or by the earlier one."""
    import onnx

    torch.manual_seed(0)
    model = globals()[package](name, **arguments).eval()
    shape, _, limit = sizes.partition(":")
    whole = [int(size) for size in shape.split("x")]
    batch = torch.randint(int(limit), whole) if limit else torch.randn(*whole)
    if package == "transformers":
        model.config.use_cache, model.config.return_dict = False, not legacy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not legacy:
            return torch.onnx.export(model, (batch,), dynamo=True, verbose=False).model_proto
        file = io.BytesIO()
        torch.onnx.export(model, (batch,), file, dynamo=False)
        return onnx.load_from_string(file.getvalue())
