"""Tensors of PyTorch in what layers and models return.

It imports nothing of Horizont, and runs wherever PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

#: Entries of a dictionary that are before all others, which would be in the order of their names.
FIRST = ("logits", "last_hidden_state")


def checked(model: Any) -> torch.nn.Module:
    """Check that what a callable returned is a module of real numbers."""
    if not isinstance(model, torch.nn.Module):
        name = getattr(model, "__name__", f"an object of {type(model).__name__}")
        name = "None" if model is None else name
        raise TypeError(f"the callable returned {name}, and not a torch.nn.Module")
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor) and tensor.is_complex():
            raise TypeError(f"{name} has complex numbers, which are not compared")
    return model


def normalized_weights(module: torch.nn.Module) -> dict[str, Any]:
    """Return what weights are computed from that are normalized by a parametrization.

    The names are those of the older functions for it: magnitude and direction of `weight_norm`, the
    weight of `spectral_norm` with its singular vectors.
    """
    found: dict[str, Any] = {}
    parametrizations: Any = getattr(module, "parametrizations", {})
    for name, each in parametrizations.items():
        if hasattr(each, "original1"):
            found |= {f"{name}_g": each.original0, f"{name}_v": each.original1}
        elif len(each) == 1 and hasattr(each[0], "_u"):
            found |= {f"{name}_orig": each.original}
            found |= {f"{name}_u": each[0]._u, f"{name}_v": each[0]._v}
    return found


def power_iteration(module: torch.nn.Module) -> dict[str, str]:
    """Return from which singular vector an iteration of `spectral_norm` starts; nothing without it.

    The older function computes the right one first, from the left one.
    """
    if "weight_u" in module._buffers:
        return {"power iteration": "from the left vector"}
    is_normalized = "weight_u" in normalized_weights(module)
    return {"power iteration": "from the right vector"} if is_normalized else {}


def first_tensor(value: Any) -> Any:
    """Return the first floating-point tensor in what a layer or model returned; None if none."""
    return tensor_in(value)[1]


def tensor_in(value: Any) -> tuple[str, Any]:
    """Return the expression that gets the first floating-point tensor in a value, and the tensor.

    None if there is none.
    """
    return next(tensors_in(value), ("", None))


def tensors_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the floating-point tensors in a value, with the expressions that get them.

    A plain dictionary is in the order of its keys, as in other frameworks, but for `FIRST`.
    """
    items: Any = ()
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield "", value
    elif type(value) is dict:
        items = sorted(value.items(), key=lambda item: _place_of(str(item[0])))
    elif isinstance(value, dict):
        items = value.items()
    elif hasattr(value, "__iter__") and not isinstance(value, str):
        items = enumerate(value)
    for key, each in items:
        for access, found in tensors_in(each):
            yield f"[{key!r}]{access}", found


def _place_of(key: str) -> tuple[Any, ...]:
    """Return what a key of a dictionary is sorted by."""
    return (*(key != each for each in FIRST), key)


def direction_of(output: Any, axis: int, *, is_reverse: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return what one direction of a recurrent layer has computed, in its own order of steps.

    Parameters
    ----------
    axis
        That of the steps.

    Returns
    -------
    tuple
        One half of the output, and a function that returns an output with another one in its place.
    """
    halves = output.chunk(2, -1)

    def own(half: Any) -> Any:
        return half.flip(axis) if is_reverse else half

    def replaced(half: Any) -> Any:
        return torch.cat([halves[0], own(half)] if is_reverse else [half, halves[1]], -1)

    return own(halves[is_reverse]), replaced


def projected(result: Any, projection: Any) -> Any:
    """Return the sum of the products of a result with given numbers, by the number of examples."""
    return (result * torch.as_tensor(projection).to(result.dtype)).sum() / len(result)
