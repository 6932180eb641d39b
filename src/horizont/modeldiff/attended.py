"""Attention between recorded tensors, written with the operations of any framework.

See :mod:`horizont.modeldiff.functions` for the operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: What is added to a score that is masked.
HIDDEN = -1e30


def part_of(m: Any, live: dict[str, Any], source: list[Any]) -> Any:
    """Return a part of an output by its name, the number of the part, and of how many."""
    name, number, count = source
    size = live[name].shape[-1] // count
    places = list(range(number * size, (number + 1) * size))
    return live[name] if count == 1 else m.take(live[name], places, len(live[name].shape) - 1)


def attended(m: Any, attention: dict[str, Any], live: dict[str, Any]) -> Any:
    """Return the values that attention selects, with the heads side by side on the last axis.

    Parameters
    ----------
    attention
        ``queries``, ``keys`` and ``values``: name of an output, (examples, steps, features), number
        of a part of its last axis, and of how many equal parts; ``heads`` of the queries;
        ``groups`` of heads with the same keys and values, if these are fewer, and whether the heads
        of a ``group`` are ``adjacent`` or ``interleaved``; ``rotation`` of queries and keys, see
        `rotated`, with its ``frequencies`` and perhaps its ``tables``, if there is one; ``scale``,
        by which the products of queries and keys are multiplied; ``mask``, ``causal`` or ``none``.
    """
    parts = [part_of(m, live, attention[name]) for name in ("queries", "keys", "values")]
    queries = by_heads(m, parts[0], {"heads": attention["heads"]})
    keys, values = (by_heads(m, part, attention) for part in parts[1:])
    if rotation := attention.get("rotation"):
        how = rotation, attention["frequencies"], attention.get("tables")
        queries, keys = (rotated(m, each, *how) for each in (queries, keys))
    scores = m.matmul(queries, m.swapaxes(keys, 2, 3)) * attention["scale"]
    steps = queries.shape[2]
    if attention["mask"] == "causal":
        scores = scores + m.like(np.triu(np.full((1, 1, steps, steps), HIDDEN), 1), scores)
    found = m.swapaxes(m.matmul(m.softmax(scores), values), 1, 2)
    return m.reshape(found, (*found.shape[:2], found.shape[2] * found.shape[3]))


def by_heads(m: Any, part: Any, attention: Mapping[str, Any]) -> Any:
    """Return features, (examples, steps, features), as (examples, heads, steps, features).

    Features of fewer groups are repeated for each of their heads.
    """
    count = attention.get("groups", attention["heads"])
    shape = (*part.shape[:2], count, part.shape[2] // count)
    found = m.swapaxes(m.reshape(part, shape), 1, 2)
    return m.take(found, group_of_heads(attention), 1) if "groups" in attention else found


def group_of_heads(attention: Mapping[str, Any]) -> list[int]:
    """Return the group whose keys and values each head of the queries has."""
    heads, groups = attention["heads"], attention["groups"]
    size = heads // groups
    is_adjacent = attention["group"] == "adjacent"
    return [head // size if is_adjacent else head % groups for head in range(heads)]


def rotation_tables(frequencies: Sequence[float], steps: int) -> list[Any]:
    """Return the cosines and sines by which pairs of features are rotated, (steps, pairs)."""
    angles = np.outer(np.arange(steps), frequencies)
    return [np.cos(angles), np.sin(angles)]


def rotated(
    m: Any, x: Any, rotation: str, frequencies: Sequence[float], tables: Sequence[Any] | None = None
) -> Any:
    """Rotate pairs of features of each head by angles that grow with the step.

    The features after those of the pairs are not rotated.

    Parameters
    ----------
    x
        (examples, heads, steps, features).
    rotation
        Which features are a pair: ``halves``, one of each half, or ``adjacent``.
    frequencies
        The angles of the pairs at the second step.
    tables
        The cosines and sines, if they are not those of `rotation_tables`.
    """
    pairs = len(frequencies)
    cosines, sines = map(np.asarray, tables or rotation_tables(frequencies, x.shape[2]))
    if rotation == "halves":
        order = [*range(pairs, 2 * pairs), *range(pairs)]
        cosines, sines = (np.concatenate([each, each], axis=1) for each in (cosines, sines))
        signs = np.repeat([-1.0, 1.0], pairs)
    else:
        order = [place ^ 1 for place in range(2 * pairs)]
        cosines, sines = (np.repeat(each, 2, axis=1) for each in (cosines, sines))
        signs = np.tile([-1.0, 1.0], pairs)
    around = ((0, 0), (0, x.shape[3] - 2 * pairs))
    cosines = np.pad(cosines, around, constant_values=1.0)[None, None]
    sines = np.pad(sines * signs, around)[None, None]
    order += range(2 * pairs, x.shape[3])
    return x * m.like(cosines, x) + m.take(x, order, 3) * m.like(sines, x)
