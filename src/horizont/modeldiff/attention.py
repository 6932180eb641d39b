"""Which attention turned recorded queries, keys and values into the input of a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product
from typing import Any

import numpy as np

from horizont.modeldiff.functions import attended
from horizont.modeldiff.identification import NumPyNamespace, largest
from horizont.modeldiff.recording import Array

#: More heads are not tried.
_MOST_HEADS = 64

#: Queries, keys and values may be parts of one output, or keys and values be.
_PARTS = (1, 2, 3)

#: Rounding of a mean that lies between its summands, relative to the largest element.
_MARGIN = 1e-9

#: A part of an output: its name, the number of the part, and of how many.
_Source = tuple[str, int, int]


def identify_attention(
    outputs: Mapping[str, Array], target: Array, bound: float
) -> dict[str, Any] | None:
    """Find the attention that maps outputs of layers to an array, (examples, steps, features).

    Parameters
    ----------
    bound
        On the largest difference, relative to the largest element of the array.

    Returns
    -------
    dict or None
        What `attended` computes it from.
    """
    if target.ndim != 3:
        return None
    sources = dict(_sources(outputs, target))
    within = [source for source, part in sources.items() if _can_be_values(part, target)]
    limit = bound * largest(target)
    for values, (queries, keys) in product(within, permutations(sources, 2)):
        if values in (queries, keys):
            continue
        q, k, v = sources[queries], sources[keys], sources[values]
        if q.shape != target.shape or k.shape[:2] != v.shape[:2] or q.shape[2] != k.shape[2]:
            continue
        named = {"queries": [*queries], "keys": [*keys], "values": [*values]}
        for settings in _settings(q, k):
            attention = {**named, **settings}
            if all(
                _distance(attention, outputs, target, count) <= limit for count in (1, len(target))
            ):
                return attention
    return None


def _sources(outputs: Mapping[str, Array], target: Array) -> Iterator[tuple[_Source, Array]]:
    """List the parts of outputs that may be queries, keys or values, the last output first."""
    for name, output in outputs.items():
        if output.ndim != 3 or len(output) != len(target):
            continue
        for count in _PARTS:
            if output.shape[2] == count * target.shape[2]:
                parts = np.split(output, count, axis=2)
                yield from (((name, i, count), part) for i, part in enumerate(parts))


def _can_be_values(part: Array, target: Array) -> bool:
    """Whether each element of an array lies between those of all steps, as a mean of them does."""
    margin = _MARGIN * largest(target)
    low, high = part.min(1, keepdims=True) - margin, part.max(1, keepdims=True) + margin
    return bool(np.all((target >= low) & (target <= high)))


def _settings(queries: Array, keys: Array) -> Iterator[dict[str, Any]]:
    """List numbers of heads, scales and masks, the usual ones first."""
    features = queries.shape[2]
    masks = ("none", "causal") if queries.shape[1] == keys.shape[1] else ("none",)
    for heads in range(1, min(features, _MOST_HEADS) + 1):
        if features % heads == 0:
            size = features // heads
            scales = dict.fromkeys((size**-0.5, 1.0, features**-0.5, 1.0 / size))
            for scale, mask in product(scales, masks):
                yield {"heads": heads, "scale": scale, "mask": mask}


def _distance(
    attention: dict[str, Any], outputs: Mapping[str, Array], target: Array, count: int
) -> float:
    """Return the largest difference in the first examples."""
    names = (attention[key][0] for key in ("queries", "keys", "values"))
    live = {name: outputs[name][:count] for name in names}
    found = attended(NumPyNamespace, attention, live)
    return float(np.max(np.abs(found - target[:count])))
