"""Tensors of PyTorch in what layers and models return.

It imports nothing of Horizont, and runs wherever PyTorch does.
"""

from __future__ import annotations

from typing import Any

import torch


def first_tensor(value: Any) -> Any:
    """Return the first floating-point tensor in what a layer or model returned; None if none."""
    return tensor_in(value)[1]


def tensor_in(value: Any) -> tuple[str, Any]:
    """Return the expression that gets the first floating-point tensor in a value, and the tensor.

    None if there is none.
    """
    if isinstance(value, torch.Tensor):
        return "", value if value.is_floating_point() else None
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif hasattr(value, "__iter__") and not isinstance(value, str):
        items = enumerate(value)
    for key, each in items:
        access, found = tensor_in(each)
        if found is not None:
            return f"[{key!r}]{access}", found
    return "", None
