"""How a model of PyTorch calls attention and recurrent layers: masks, axes, initial states.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

#: Scores that a mask makes smaller by as much have no weight.
_BLOCKED = -1e4


class SequenceCalls:
    """Calls of attention and of recurrent layers in one evaluation of a model."""

    def __init__(self, entries: Sequence[Any], examples: int) -> None:
        self._entries = [each for each in entries if hasattr(each.module, "batch_first")]
        self._examples = examples
        self._found: dict[str, dict[str, str]] = {}

    def settings(self, entry: Any) -> dict[str, str]:
        """Return the settings of a layer that was called."""
        return self._found.get(entry.name, {})

    def hooks(self) -> list[Any]:
        """Record the first call of each layer, until the hooks are removed."""
        found = []
        for entry in self._entries:

            def called(module: Any, args: Any, kwargs: Any, entry: Any = entry) -> None:
                if args and isinstance(args[0], torch.Tensor):  # and no packed sequence
                    if entry.kind == "attention":
                        own = {"mask": _mask(_given(args, kwargs))}
                    else:
                        own = _state(args, kwargs)
                    axis = self._first_axis(module, args[0].shape)
                    self._found.setdefault(entry.name, {**own, "first axis": axis})

            found.append(entry.module.register_forward_pre_hook(called, with_kwargs=True))
        return found

    def _first_axis(self, module: Any, shape: Sequence[int]) -> str:
        """Return what comes first: a layer may take examples for the steps that it expects."""
        has_examples_first = len(shape) == 3 and shape[0] == self._examples != shape[1]
        return "steps" if has_examples_first and not module.batch_first else "examples"


def _state(args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, str]:
    """Return from which state a recurrent layer starts."""
    given = args[1] if len(args) > 1 else kwargs.get("hx")
    states = () if given is None else given
    states = states if isinstance(states, tuple) else (states,)
    return {"initial state": "others" if any(each.any() for each in states) else "zeros"}


#: The arguments of attention, in order.
_NAMES = (
    "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask",
    "average_attn_weights", "is_causal",
)  # fmt: skip


def _given(args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(_NAMES, args, strict=False)), **kwargs}


def _mask(given: dict[str, Any]) -> str:
    """Name the mask of a call; `is_causal` is only a hint at what the mask is."""
    if given.get("key_padding_mask") is not None:
        return "of examples"
    attn_mask = given.get("attn_mask")
    if attn_mask is None:
        return "none"
    blocked = attn_mask if attn_mask.dtype is torch.bool else attn_mask <= _BLOCKED
    is_causal = blocked.ndim == 2 and torch.equal(blocked, _causal(len(blocked)))
    is_plain = blocked is attn_mask or not attn_mask.masked_fill(blocked, 0.0).any()
    return "causal" if is_causal and is_plain else "another"


def _causal(steps: int) -> torch.Tensor:
    """Return which later steps a step does not attend to."""
    return torch.ones(steps, steps, dtype=torch.bool).triu(1)


def set_mask(module: nn.Module, value: str) -> Callable[[], object]:
    """Call attention with a causal mask, or without one."""

    def before(_: Any, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        given = {**_given(args, kwargs), "is_causal": False}
        steps = given["query"].shape[1 if module.batch_first else 0]
        given["attn_mask"] = _causal(steps) if value == "causal" else None
        return (), given

    return module.register_forward_pre_hook(before, with_kwargs=True).remove


def set_initial_state(module: nn.Module) -> Callable[[], object]:
    """Make a recurrent layer start from zeros."""
    hook = module.register_forward_pre_hook(lambda _, args, __: (args[:1], {}), with_kwargs=True)
    return hook.remove
