"""Functions between layers that differ where the values of a batch do not reach, as ReLU and ReLU6.

Both sides are evaluated once more, with the outputs of all layers enlarged in the same way. What
differs then in the input of a layer is a cause if a rule identifies it and its repair removes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from horizont.modeldiff.common_shapes import unpadded
from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import Difference, distance
from horizont.modeldiff.glue_rules import input_candidate
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.recording import Array, Recording, Repair, Request
from horizont.modeldiff.repairs import UNKNOWN, Candidate, merged, repairs_of
from horizont.modeldiff.search import Cause

#: The largest element of an enlarged output: beyond the kinks of the usual functions, and below the
#: threshold from which some frameworks replace a softplus by what it approaches.
_LARGEST = 10.0

#: Relative distances above this are none of rounding.
_BOUND = 1e-9


def with_causes_beyond(comparison: Comparison, causes: Sequence[Cause]) -> list[Cause]:
    """Add what differs for larger outputs alone to the causes of what differs anyway.

    The same difference in other layers is no further cause.
    """
    found = list(causes)
    for cause in _causes_beyond(comparison, repairs_of([each.candidate for each in causes])):
        one = cause.candidate
        for number, each in enumerate(causes):
            other = each.candidate
            if (one.what, one.value_a, one.value_b) == (other.what, other.value_a, other.value_b):
                layers = (*other.layers, *one.layers)
                found[number] = replace(each, candidate=replace(other, layers=layers))
                break
        else:
            named = replace(one, what=f"{one.what} beyond the values of this batch")
            found.append(replace(cause, candidate=named))
    return found


def _causes_beyond(comparison: Comparison, repairs: Sequence[Repair]) -> list[Cause]:
    """Find what differs for larger outputs, with the repairs of all that differs anyway."""
    if not (comparison.a.can_train and comparison.b.can_train):
        return []
    try:
        enlarged = _enlarged(comparison)
        before = enlarged.run_fed(repairs)
        distances = _distances(enlarged, before)
        found = _candidates(enlarged, before, distances)
        if not found:
            return []
        after = enlarged.run_fed([*repairs, *repairs_of(found)])
    except RunFailed:
        return []
    repaired = _distances(enlarged, after)
    causes = []
    for each in found:
        layer = each.layers[0]
        if all(repaired.get(name, inf) <= _BOUND for name in each.layers):
            one, other = (
                Difference("input", layer, "", values[layer], _BOUND)
                for values in (distances, repaired)
            )
            causes.append(Cause(each, (one,), other))
    return causes


def _enlarged(comparison: Comparison) -> Comparison:
    """Return a comparison in which what follows a layer gets a multiple of its output."""
    feed = {}
    for pair in comparison.pairs:
        name = f"output|{pair.b.name}"
        output = comparison.evaluation_b.get(name)
        own = comparison.plain_a.get(f"output|{pair.a.name}")
        # What one side cuts later, the other one has not: that is fed to none of them.
        if output is None or own is None or own.shape != output.shape:
            continue
        if (factor := _factor(output)) > 1.0:
            feed[name] = factor * output
    recorded = comparison.b.run(Request(comparison.weights, comparison.dtype, feed=feed))
    other = Comparison(comparison.a, comparison.b, comparison.pairing, comparison.batch)
    other.weights, other.plain_a = comparison.weights, comparison.plain_a
    other.evaluation_b = {**recorded, **feed}
    return other


def _factor(output: Array) -> float:
    """Return by what an output is multiplied; by 1 if it is large enough, or has no numbers."""
    largest = np.max(np.abs(output), initial=0.0)
    return float(_LARGEST / largest) if np.isfinite(largest) and largest > 0.0 else 1.0


def _distances(enlarged: Comparison, recorded: Recording) -> dict[str, float]:
    """Return the distances of the inputs of layers, where both are finite and of one shape."""
    found = {}
    for pair in enlarged.pairs:
        one = recorded.get(f"input|{pair.a.name}")
        other = enlarged.evaluation_b.get(f"input|{pair.b.name}")
        if one is not None and other is not None:
            value = distance(*unpadded(pair, one, other)[:2])
            if np.isfinite(value):
                found[pair.a.name] = value
    return found


def _candidates(
    enlarged: Comparison, recorded: Recording, distances: Mapping[str, float]
) -> list[Candidate]:
    """List what rules identify in inputs that differ."""
    found = []
    for number, pair in enumerate(enlarged.pairs):
        if distances.get(pair.a.name, 0.0) > _BOUND:
            candidate = input_candidate(enlarged.glue(number, recorded))
            if candidate and candidate.layers and candidate.value_a != UNKNOWN:
                found.append(candidate)
    return merged(found)
