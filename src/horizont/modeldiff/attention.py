"""Which attention turned recorded queries, keys and values into the input of a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import numpy as np

from horizont.modeldiff.attended import attended, by_heads
from horizont.modeldiff.identification import ArrayNamespace, Part, largest, output_parts
from horizont.modeldiff.recording import Array
from horizont.modeldiff.rotations import (
    IN_DOUBLE,
    LastStep,
    described,
    rotations,
    with_rounded_tables,
)

#: More heads are not tried.
_MOST_HEADS = 64

#: Queries, keys and values may be parts of one output, or keys and values be.
_PARTS = (1, 2, 3)

#: Of the search for a scale: iterations, the step at which it ends, and where it gives up.
_MOST_ITERATIONS, _CONVERGED, _LARGEST_SCALE = 25, 1e-14, 1e3

#: Digits of a scale that was found.
_DIGITS = 12

#: What a rotation in single precision moves attention by at most, relative to it: also the angles
#: are rounded, and those of later steps are large.
_ROUNDED = 1e-5

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
    size = largest(target)
    choices = list(_choices(dict(_sources(outputs, target)), target))

    def rest(attention: dict[str, Any], count: int | None = None) -> Array:
        return _rest(attention, outputs, target, count)

    def is_found(attention: dict[str, Any], limit: float = bound) -> bool:
        counts = (1, None)
        return all(np.max(np.abs(rest(attention, n))) <= limit * size for n in counts)

    for search in (_usual_scales, _fitted_scale, rotations):
        for named, heads, last in choices:
            for found in search(last):
                for mask in ("none", "causal") if last.is_square else ("none",):
                    whole = {**named, **heads, **found, "mask": mask}
                    if is_found(whole):
                        return whole
                    precision = described(found).get("precision")
                    if precision == IN_DOUBLE and is_found(whole, _ROUNDED):
                        tables = with_rounded_tables(whole, target.shape[1], rest)
                        if tables and is_found(tables):
                            return tables
    return None


def _choices(
    sources: dict[Part, Array], target: Array
) -> Iterator[tuple[dict[str, list[Any]], dict[str, Any], LastStep]]:
    """List what queries, keys and values may be, with possible heads, and what they compute."""
    for values, part in sources.items():
        possible = _possible_heads(part, target)
        for queries, keys in permutations(sources, 2) if possible else ():
            chosen = (queries, keys, values)
            parts = [sources[each] for each in chosen]
            if values in (queries, keys) or parts[0].shape != target.shape:
                continue
            if parts[1].shape != parts[2].shape:
                continue
            named = dict(zip(("queries", "keys", "values"), map(list, chosen), strict=True))
            for heads in possible:
                yield named, heads, LastStep.of(parts, target, heads)


def _sources(outputs: Mapping[str, Array], target: Array) -> Iterator[tuple[Part, Array]]:
    """List the parts of outputs that may be queries, keys or values, the last output first."""
    features = target.shape[2]
    possible = {
        name: output
        for name, output in outputs.items()
        if output.ndim == 3 and len(output) == len(target)
    }
    yield from output_parts(possible, features, _PARTS)
    for name, output in possible.items():
        if output.shape[2] < features and features % output.shape[2] == 0:
            yield (name, 0, 1), output


def _heads(features: int, size: int) -> Iterator[dict[str, Any]]:
    """List numbers of heads; with fewer features of keys and values, groups of them share these."""
    shared = features // size
    for heads in range(1, min(features, _MOST_HEADS) + 1):
        if features % heads or heads % shared:
            continue
        if shared == 1:
            yield {"heads": heads}
            continue
        groups = heads // shared
        for group in ("adjacent", "interleaved") if groups > 1 else ("adjacent",):
            yield {"heads": heads, "groups": groups, "group": group}


def _possible_heads(part: Array, target: Array) -> list[dict[str, Any]]:
    """List the heads for which each step of an array may be a mean of all steps of values."""
    found = []
    margin = _MARGIN * largest(target)
    for heads in _heads(target.shape[2], part.shape[2]):
        values = by_heads(ArrayNamespace, part, heads)
        means = by_heads(ArrayNamespace, target, {"heads": heads["heads"]})
        low, high = values.min(2, keepdims=True) - margin, values.max(2, keepdims=True) + margin
        if not np.all((means >= low) & (means <= high)):
            continue
        steps, features = values.shape[2:]
        if features <= steps:
            found.append(heads)
            continue
        # Few arrays are sums of the steps of values if these have more features than steps.
        basis = np.linalg.qr(values[0].swapaxes(1, 2))[0]
        if np.max(np.abs(means[0] - means[0] @ basis @ basis.swapaxes(1, 2))) <= margin:
            return [heads]
    return found


def _usual_scales(last: LastStep) -> Iterator[dict[str, Any]]:
    """List the usual scales that are right for the last step."""
    size = last.queries.shape[2]
    features = size * len(last.queries)
    for scale in dict.fromkeys((size**-0.5, 1.0, features**-0.5, 1.0 / size)):
        if last.is_near(scale):
            yield {"scale": scale}


def _fitted_scale(last: LastStep) -> Iterator[dict[str, Any]]:
    """List the scale that fits the last step best, by Gauss and Newton, if it is right."""
    products = last.products()
    scale = last.queries.shape[2] ** -0.5
    for _ in range(_MOST_ITERATIONS):
        weights = ArrayNamespace.softmax(products * scale)
        slope = weights * (products - (weights * products).sum(-1, keepdims=True)) @ last.values
        rest = last.goal - weights @ last.values
        step = float(np.vdot(slope, rest) / max(np.vdot(slope, slope), 1e-300))
        scale += step
        if not abs(scale) < _LARGEST_SCALE or abs(step) <= _CONVERGED * abs(scale):
            break
    if last.is_near(scale):
        yield {"scale": float(f"{scale:.{_DIGITS}g}")}


def _rest(
    attention: dict[str, Any], outputs: Mapping[str, Array], target: Array, count: int | None
) -> Array:
    """Return what is missing in the first examples, or in all of them."""
    names = (attention[key][0] for key in ("queries", "keys", "values"))
    live = {name: outputs[name][:count] for name in names}
    found: Array = target[:count] - attended(ArrayNamespace, attention, live)
    return found
