"""Sums over steps with other weights: over all of a sequence, or those that are no padding.

Where a sequence has fewer steps than features, the weights follow from its features.
"""

from __future__ import annotations

import numpy as np

from horizont.modeldiff.functions import FUNCTIONS
from horizont.modeldiff.glue import Glue, glue_candidate
from horizont.modeldiff.identification import ArrayNamespace, largest
from horizont.modeldiff.recording import Array
from horizont.modeldiff.repairs import Candidate

#: The largest relative error of a solution, and of a weight that has a name.
_BOUND, _WEIGHT_BOUND = 1e-11, 1e-8


def weighted_steps(glue: Glue) -> Candidate | None:
    """Find with which weights both sides add the steps of an output, or of a function of it."""
    for name, source in glue.outputs.items():
        if source.ndim != 3 or source.shape[1] >= source.shape[2]:
            continue
        if not (len(source), source.shape[2]) == glue.a.shape == glue.b.shape:
            continue
        for function, apply in FUNCTIONS.items():
            x = apply(ArrayNamespace, source)
            theirs = _weights(x, glue.b)
            own = None if theirs is None else _weights(x, glue.a)
            if theirs is not None and own is not None:
                value = {"from": name, "function": function, "step weights": theirs.tolist()}
                texts = _described(own), _described(theirs)
                return glue_candidate(glue, "weights of steps", *texts, value)
    return None


def _weights(x: Array, y: Array) -> Array | None:
    """Return weights, (examples, steps), with which steps of sequences add up; None if none do."""
    bound = _BOUND * largest(y)
    found = []
    with np.errstate(all="ignore"):
        for one, other in zip(x, y, strict=True):
            if not np.isfinite(one).all():
                return None
            weights = np.linalg.lstsq(one.T, other, rcond=None)[0]
            if np.max(np.abs(weights @ one - other)) > bound:
                return None
            found.append(weights)
    return np.array(found)


def _described(weights: Array) -> str:
    """Name weights: of the mean or sum of all steps, or of some of them."""
    is_there = np.abs(weights) > _WEIGHT_BOUND
    counts = is_there.sum(1)
    ones = np.abs(np.where(is_there, weights, 1.0) - 1.0).max() < _WEIGHT_BOUND
    mean = np.abs(np.where(is_there, weights * counts[:, None], 1.0) - 1.0).max() < _WEIGHT_BOUND
    steps = weights.shape[1]
    number = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else counts[0]
    of_some = "" if counts.min() == steps else f" of {number} of {steps} steps"
    if counts.max() == 1 and ones:
        places = is_there.argmax(1)
        named = {0: "the first", steps - 1: "the last"}
        return named.get(places[0], "one") if len({*places}) == 1 else "one of each example"
    if mean:
        return f"the mean{of_some}"
    return f"the sum{of_some}" if ones else f"others{of_some}"
