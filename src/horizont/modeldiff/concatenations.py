"""Inputs of layers that are put together from functions of several outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from horizont.modeldiff.glue import FEATURE_AXIS, PARTS, Glue, glue_candidate
from horizont.modeldiff.identification import identify, identity_bound
from horizont.modeldiff.recording import Array
from horizont.modeldiff.repairs import UNKNOWN, Candidate, shown

#: What each part is computed from, and how, see `repaired`.
_Parts = list[dict[str, Any]]


def concatenation(glue: Glue) -> Candidate | None:
    """Find parts side by side: their order, or what one of them is a function of."""
    axis = FEATURE_AXIS.get(glue.b.ndim)
    if axis is None or glue.a.shape != glue.b.shape:
        return None
    theirs = _split(glue.sources, glue.b, axis)
    if theirs is None:
        return None
    own = _split(glue.sources_a, glue.a, axis)
    change = {"parts": theirs, "axis": axis}
    if own is None:
        return glue_candidate(glue, "concatenated parts", UNKNOWN, _names(theirs), change)
    found = list(_differences(own, theirs))
    if not found:
        return None
    whats, ones, others = zip(*found, strict=True)
    return glue_candidate(glue, " and ".join(whats), ", ".join(ones), ", ".join(others), change)


def _differences(own: _Parts, theirs: _Parts) -> Iterator[tuple[str, str, str]]:
    """List what differs: the order, and the first one of the functions, with both values."""
    if _names(own) != _names(theirs):
        yield "order of concatenated parts", _names(own), _names(theirs)
    by_source = {each["from"]: each for each in own}
    for other in theirs:
        one = by_source.get(other["from"], {})
        for key, name in PARTS.items():
            if one and one.get(key) != other.get(key):
                yield f"{name} of a concatenated part", shown(one.get(key)), shown(other.get(key))
                return


def _names(parts: _Parts) -> str:
    """Name the outputs and inputs of which the parts are functions."""
    return ", ".join(each["from"].replace("|", " of ") for each in parts)


def _split(sources: Mapping[str, Array], target: Array, axis: int) -> _Parts | None:
    """Return the functions of outputs that give an array side by side; None if none do."""
    found: _Parts = []
    offset = 0
    while offset < target.shape[axis]:
        rest = np.take(target, range(offset, target.shape[axis]), axis)
        part = _first_part(sources, rest, axis)
        if part is None:
            return None
        change, width = part
        found.append(change)
        offset += width
    return found if len(found) > 1 else None


def _first_part(
    sources: Mapping[str, Array], target: Array, axis: int
) -> tuple[dict[str, Any], int] | None:
    """Return the function of an output with which an array begins, and its width."""
    for name, source in sources.items():
        if source.ndim < 2:  # the indices of positions, for example
            continue
        widths = {source.shape[1], source.shape[-1], int(np.prod(source.shape[1:]))}
        for width in sorted(each for each in widths if each <= target.shape[axis]):
            part = np.take(target, range(width), axis)
            change = identify(source, part, identity_bound(part))
            if change is not None:
                return {"from": name, **change}, width
    return None
