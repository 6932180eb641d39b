"""Which attention turned recorded queries, keys and values into the input of a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product
from typing import Any

import numpy as np

from horizont.modeldiff.functions import HIDDEN, attended
from horizont.modeldiff.identification import ArrayNamespace, Part, largest, output_parts
from horizont.modeldiff.recording import Array

#: More heads are not tried.
_MOST_HEADS = 64

#: Queries, keys and values may be parts of one output, or keys and values be.
_PARTS = (1, 2, 3)

#: Of the search for a scale: iterations, the step at which it ends, and where it gives up.
_MOST_ITERATIONS, _CONVERGED, _LARGEST_SCALE = 25, 1e-14, 1e3

#: Digits of a scale that was found.
_DIGITS = 12

#: Rounding of a mean that lies between its summands, relative to the largest element.
_MARGIN = 1e-9


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

    def is_found(attention: dict[str, Any]) -> bool:
        counts = (1, len(target))
        return all(_distance(attention, outputs, target, count) <= limit for count in counts)

    choices = [
        (queries, keys, values)
        for values, (queries, keys) in product(within, permutations(sources, 2))
        if values not in (queries, keys)
        and sources[queries].shape == target.shape
        and sources[keys].shape[:2] == sources[values].shape[:2]
        and sources[keys].shape[2] == target.shape[2]
    ]
    for settings in (_usual_settings, _fitted_settings):
        for chosen in choices:
            named = dict(zip(("queries", "keys", "values"), map(list, chosen), strict=True))
            q, k, v = (sources[each][:1] for each in chosen)
            for found in settings(q, k, v, target[:1]):
                if is_found({**named, **found}):
                    return {**named, **found}
    return None


def _sources(outputs: Mapping[str, Array], target: Array) -> Iterator[tuple[Part, Array]]:
    """List the parts of outputs that may be queries, keys or values, the last output first."""
    possible = {
        name: output
        for name, output in outputs.items()
        if output.ndim == 3 and len(output) == len(target)
    }
    return output_parts(possible, target.shape[2], _PARTS)


def _can_be_values(part: Array, target: Array) -> bool:
    """Whether each element of an array lies between those of all steps, as a mean of them does."""
    margin = _MARGIN * largest(target)
    low, high = part.min(1, keepdims=True) - margin, part.max(1, keepdims=True) + margin
    return bool(np.all((target >= low) & (target <= high)))


def _heads_and_masks(queries: Array, keys: Array) -> Iterator[tuple[int, str]]:
    """List numbers of heads and masks."""
    features = queries.shape[2]
    masks = ("none", "causal") if queries.shape[1] == keys.shape[1] else ("none",)
    heads = (n for n in range(1, min(features, _MOST_HEADS) + 1) if features % n == 0)
    return product(heads, masks)


def _usual_settings(
    queries: Array, keys: Array, values: Array, target: Array
) -> Iterator[dict[str, Any]]:
    """List numbers of heads, masks and the usual scales."""
    del values, target
    for heads, mask in _heads_and_masks(queries, keys):
        size = queries.shape[2] // heads
        for scale in dict.fromkeys((size**-0.5, 1.0, queries.shape[2] ** -0.5, 1.0 / size)):
            yield {"heads": heads, "scale": scale, "mask": mask}


def _fitted_settings(
    queries: Array, keys: Array, values: Array, target: Array
) -> Iterator[dict[str, Any]]:
    """List numbers of heads, masks and the scale that fits best, by Gauss and Newton."""
    for heads, mask in _heads_and_masks(queries, keys):
        q, k, v, goal = (
            each.reshape(*each.shape[:2], heads, -1).swapaxes(1, 2)
            for each in (queries, keys, values, target)
        )
        products = q @ k.swapaxes(2, 3)
        steps = products.shape[-1]
        hidden = np.triu(np.full((steps, steps), HIDDEN), 1) if mask == "causal" else 0.0
        scale = q.shape[3] ** -0.5
        for _ in range(_MOST_ITERATIONS):
            weights = ArrayNamespace.softmax(products * scale + hidden)
            slope = weights * (products - (weights * products).sum(-1, keepdims=True)) @ v
            step = float(np.vdot(slope, goal - weights @ v) / max(np.vdot(slope, slope), 1e-300))
            scale += step
            if not abs(scale) < _LARGEST_SCALE or abs(step) <= _CONVERGED * abs(scale):
                break
        yield {"heads": heads, "scale": float(f"{scale:.{_DIGITS}g}"), "mask": mask}


def _distance(
    attention: dict[str, Any], outputs: Mapping[str, Array], target: Array, count: int
) -> float:
    """Return the largest difference in the first examples."""
    names = (attention[key][0] for key in ("queries", "keys", "values"))
    live = {name: outputs[name][:count] for name in names}
    found = attended(ArrayNamespace, attention, live)
    return float(np.max(np.abs(found - target[:count])))
