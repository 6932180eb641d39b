"""In which order a model of Keras executes its layers, and what they are called with.

It imports nothing of Horizont.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from . import keras_changes as changes
from .keras_layers import Entry


def executed(
    entries: Sequence[Entry], evaluate: Callable[[], object]
) -> tuple[list[Entry], dict[str, Any], dict[str, dict[str, str]]]:
    """Return the layers as they are executed, shapes of their inputs, and settings of calls."""
    order: dict[str, int] = {}
    shapes: dict[str, Any] = {}
    settings: dict[str, dict[str, str]] = {}
    with contextlib.ExitStack() as stack:
        for entry in entries:

            def wrap(call: Any, entry: Entry = entry) -> Any:
                def recorded(*args: Any, **kwargs: Any) -> Any:
                    order.setdefault(entry.name, len(order))
                    if args and ops.is_tensor(args[0]):
                        shapes.setdefault(entry.name, tuple(args[0].shape))
                    settings.setdefault(entry.name, _settings(entry, kwargs))
                    return call(*args, **kwargs)

                return recorded

            stack.callback(changes.wrap_call(entry.layer, "call", wrap))
        evaluate()
    # Parts have the order in which they are listed, whichever attention executes first.
    for entry in entries:
        others = [each.name for each in entries if entry.part and each.whole == entry.whole]
        if others:
            order[entry.name] = min(order.get(name, len(order)) for name in others)
    in_order = sorted(entries, key=lambda entry: order.get(entry.name, len(order)))
    return in_order, shapes, settings


def _settings(entry: Entry, given: dict[str, Any]) -> dict[str, str]:
    """Return the settings of a layer that its call decides."""
    if entry.kind == "attention":
        return {"mask": _mask(**given)}
    if entry.kind in ("LSTM", "GRU", "RNN"):
        has_state = given.get("initial_state") is not None or entry.layer.stateful
        return {"initial state": "others" if has_state else "zeros"}
    return {}


def _mask(*, attention_mask: Any = None, use_causal_mask: bool = False, **others: Any) -> str:
    """Name the mask of a call of attention; those of single tensors are masks of examples."""
    if any("mask" in name and value is not None for name, value in others.items()):
        return "of examples"
    if attention_mask is None:
        return "causal" if use_causal_mask else "none"
    allowed = np.asarray(attention_mask) != 0
    earlier = np.tri(*allowed.shape[-2:]) != 0
    allowed = allowed & earlier if use_causal_mask else allowed
    return "causal" if (allowed == earlier).all() else "another"
