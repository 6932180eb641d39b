"""Masks of attention in PyTorch: which one a module is called with, and another one.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

#: Scores that a mask makes smaller by as much have no weight.
_BLOCKED = -1e4


#: The arguments of attention, in order.
_NAMES = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask",
    "average_attn_weights", "is_causal",
)  # fmt: skip


def mask_of(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Name the mask of a call; `is_causal` is only a hint at what the mask is."""
    return _named(**dict(zip(_NAMES, args, strict=False)), **kwargs)


def _named(*, key_padding_mask: Any = None, attn_mask: Any = None, **_: Any) -> str:
    if key_padding_mask is not None:
        return "of examples"
    if attn_mask is None:
        return "none"
    blocked = attn_mask if attn_mask.dtype is torch.bool else attn_mask < _BLOCKED
    is_causal = blocked.ndim == 2 and torch.equal(blocked, _causal(len(blocked)))
    is_plain = blocked is attn_mask or not attn_mask.masked_fill(blocked, 0.0).any()
    return "causal" if is_causal and is_plain else "another"


def _causal(steps: int) -> torch.Tensor:
    """Return which later steps a step does not attend to."""
    return torch.ones(steps, steps, dtype=torch.bool).triu(1)


def set_mask(module: nn.Module, value: str) -> Callable[[], object]:
    """Call attention with a causal mask, or without one."""

    def before(_: Any, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        given = {**dict(zip(_NAMES, args, strict=False)), **kwargs, "is_causal": False}
        steps = given["query"].shape[1 if getattr(module, "batch_first", False) else 0]
        given["attn_mask"] = _causal(steps) if value == "causal" else None
        return (), given

    return module.register_forward_pre_hook(before, with_kwargs=True).remove
