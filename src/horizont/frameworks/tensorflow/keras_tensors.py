"""Tensors of Keras in what layers and models return.

It imports nothing of Horizont, and runs wherever Keras does.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


def first_tensor(value: Any) -> Any:
    """Return the first floating-point tensor in what a layer or model returned; None if none."""
    return tensor_in(value)[1]


def tensor_in(value: Any) -> tuple[str, Any]:
    """Return the expression that gets the first floating-point tensor in a value, and the tensor.

    None if there is none.
    """
    if ops.is_tensor(value):
        is_float = "float" in keras.backend.standardize_dtype(value.dtype)
        return "", value if is_float else None
    items: Any = ()
    if isinstance(value, dict):
        items = sorted(value.items())
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, each in items:
        access, found = tensor_in(each)
        if found is not None:
            return f"[{key!r}]{access}", found
    return "", None
