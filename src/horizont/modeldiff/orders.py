"""Elements between two layers that are the same on both sides, in another order."""

from __future__ import annotations

import numpy as np

from horizont.modeldiff.glue import FEATURE_AXIS, Glue, glue_candidate, is_close
from horizont.modeldiff.recording import Array
from horizont.modeldiff.repairs import Candidate

#: How many parts of a concatenation are shown.
_MOST_PARTS = 4


def flatten_order(glue: Glue) -> Candidate | None:
    """Find features of an image that are flattened with channels last against channels first."""
    if glue.a.ndim != 2 or glue.a.shape != glue.b.shape:
        return None
    features = glue.a.shape[1]
    for output in glue.outputs.values():
        channels = output.shape[1]
        if output.ndim < 3 or features % channels or features == channels:
            continue
        order = np.arange(features).reshape(channels, -1)
        for permutation, names in (
            (order.T.ravel(), ("channels first", "channels last")),
            (order.reshape(-1, channels).T.ravel(), ("channels last", "channels first")),
        ):
            if is_close(glue.a[:, permutation], glue.b):
                value = {"order": permutation.tolist(), "axis": 1}
                return glue_candidate(glue, "order of flattened features", *names, value)
    return None


def channel_order(glue: Glue) -> Candidate | None:
    """Find images whose channels are reversed: RGB against BGR."""
    if glue.a.ndim < 3 or glue.a.shape != glue.b.shape or glue.outputs:
        return None
    if not is_close(glue.a[:, ::-1], glue.b):
        return None
    order = list(range(glue.a.shape[1]))[::-1]
    value = {"order": order, "axis": 1}
    return glue_candidate(glue, "order of channels", "given", "reversed", value)


def feature_order(glue: Glue) -> Candidate | None:
    """Find parts that are concatenated in another order, and reversed features or steps."""
    if glue.a.shape != glue.b.shape or not np.issubdtype(glue.a.dtype, np.floating):
        return None
    # Features or channels, and then the steps of sequences.
    axes = [FEATURE_AXIS[glue.a.ndim], 1] if glue.a.ndim in FEATURE_AXIS else []
    for axis in dict.fromkeys(axes):
        order = _order(glue.a, glue.b, axis)
        if order is not None:
            name = "steps" if (glue.a.ndim, axis) == (3, 1) else "features"
            value = {"order": order.tolist(), "axis": axis}
            return glue_candidate(glue, *_shown(order, name), value)
    return None


def _order(a: Array, b: Array, axis: int) -> Array | None:
    """Return the permutation of an axis that makes one array of another; None if there is none.

    Arrays that are the same have none.
    """
    slices = [np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1) for each in (a, b)]
    if min(slices[0].shape) < 2:
        return None
    # Equal slices have equal sums, which are different sums if the slices differ.
    factors = np.random.default_rng(0).normal(size=slices[0].shape[1])
    places = [np.argsort(each @ factors, kind="stable") for each in slices]
    order = np.empty(len(places[0]), dtype=int)
    order[places[1]] = places[0]
    found = np.take(a, order, axis)
    return order if is_close(found, b) and not is_close(a, b) else None


def _shown(order: Array, name: str) -> tuple[str, str, str]:
    """Return what differs, and what each side has."""
    if np.array_equal(order, np.arange(len(order))[::-1]):
        return f"order of {name}", "given", "reversed"
    parts = np.split(order, np.flatnonzero(np.diff(order) != 1) + 1)
    if len(parts) > _MOST_PARTS:
        return f"order of {name}", "given", "another"
    theirs = [f"{part[0]}:{part[-1] + 1}" for part in parts]
    own = sorted(theirs, key=lambda part: int(part.partition(":")[0]))
    return "order of concatenated parts", ", ".join(own), ", ".join(theirs)
