"""Tensors of Keras in what layers and models return.

It imports nothing of Horizont, and runs wherever Keras does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from .tensor_layouts import channels_first, channels_last

#: Entries of a dictionary that are before all others, which would be in the order of their names.
FIRST = ("logits", "last_hidden_state")


def first_tensor(value: Any) -> Any:
    """Return the first floating-point tensor in what a layer or model returned; None if none."""
    return tensor_in(value)[1]


def tensor_in(value: Any) -> tuple[str, Any]:
    """Return the expression that gets the first floating-point tensor in a value, and the tensor.

    None if there is none.
    """
    return next(tensors_in(value), ("", None))


def tensors_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the floating-point tensors in a value, with the expressions that get them."""
    items: Any = ()
    if ops.is_tensor(value):
        if "float" in keras.backend.standardize_dtype(value.dtype):
            yield "", value
    elif isinstance(value, dict):
        items = sorted(
            value.items(), key=lambda item: (*(item[0] != each for each in FIRST), item[0])
        )
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, each in items:
        for access, found in tensors_in(each):
            yield f"[{key!r}]{access}", found


def canonical_results(
    results: dict[str, Any], to_array: Callable[[Any], Any], *, has_images: bool
) -> dict[str, Any]:
    """Return results by their names in a recording, images with channels first."""
    return {
        f"result|{place}".rstrip("|"): _layout(channels_first, each, has_images)(to_array(each))
        for place, each in results.items()
    }


def loss_of(results: dict[str, Any], projections: dict[str, Any], *, has_images: bool) -> Any:
    """Return the sums of the products of results with given numbers, by the number of examples.

    None without such numbers.
    """
    losses = []
    for place, numbers in projections.items():
        result = results[place]
        factors = _layout(channels_last, result, has_images)(numbers)
        factors = ops.convert_to_tensor(factors, keras.backend.standardize_dtype(result.dtype))
        losses.append(ops.sum(result * factors) / result.shape[0])
    return sum(losses) if losses else None


def _layout(to_images: Callable[[Any], Any], result: Any, has_images: bool) -> Callable[[Any], Any]:
    """Return how to change the layout of a result, which may be an image."""
    return to_images if has_images and len(result.shape) > 3 else np.array
