"""Gradients that one side stops between layers, where both compute the same in evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from horizont.equivalence.bounds import norm
from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.glue import Glue, change_of_pair, glue_repair
from horizont.modeldiff.identification import IDENTITY_BOUND, identify, identify_pair
from horizont.modeldiff.recording import Layer, Recording, Repair
from horizont.modeldiff.repairs import NOT_TRAINED, Candidate
from horizont.modeldiff.row_rules import rows_of_b

#: Relative differences of two gradients above this are none of rounding.
_BOUND = 1e-8

#: How many layers may get the output whose gradient differs.
_REACH = 4

_WHAT = "gradient through the input of a layer"
_PASSED, _PARTLY, _STOPPED = "passed on", "passed on in part", "stopped"


def gradient_candidates(comparison: Comparison, repairs: Sequence[Repair]) -> list[list[Candidate]]:
    """List the layers through whose input only one side passes the whole gradient on.

    They follow the last layer whose output has another gradient. Side A is repaired by computing
    the input again from what precedes it, or by stopping the gradient there. Which of both is
    meant, norms of gradients do not show: these are sets of candidates, one of which may be right.
    """
    if not comparison.can_train:
        return []
    trained = comparison.train_a(repairs), comparison.training_b
    for number, pair in reversed(list(enumerate(comparison.pairs))):
        own, other = (
            _arriving(recorded, layer)
            for recorded, layer in zip(trained, (pair.a, pair.b), strict=True)
        )
        if abs(own - other) > _BOUND * max(own, other):
            fed = comparison.run_fed(repairs)
            glues = list(_following(comparison, number, fed))
            computed = [c for glue in glues for c in _computing(glue, own)] if other else []
            stopped = [_changed(glue, {"gradient": "stopped"}, _PASSED, _STOPPED) for glue in glues]
            singles = [*computed, *(stopped if own else [])]
            if own and not other and f"output|{pair.a.name}" not in trained[0]:
                singles.append(_not_trained(pair.a))
            together = [computed] if len(computed) > 1 else []
            return [*together, *([each] for each in singles)]
    return []


def _arriving(recorded: Recording, layer: Layer) -> float:
    """Return the norm of the gradient of an output, or of what belongs to no layer."""
    if f"output|{layer.name}" in recorded:
        return float(recorded.get(f"outer|{layer.name}", 0.0))
    gradients = (recorded.get(f"gradient|{layer.name}|{role}") for role in layer.shapes)
    return math.hypot(*(norm(each) for each in gradients if each is not None))


def _not_trained(layer: Layer) -> Candidate:
    repairs = (Repair(layer.name, "frozen", [*layer.shapes]),)
    names = (layer.name,)
    return Candidate(NOT_TRAINED, "none", layer.name, names, repairs, is_training_only=True)


def _following(comparison: Comparison, number: int, fed: Recording) -> Iterator[Glue]:
    """Yield what precedes each of the layers after one."""
    for place, pair in enumerate(comparison.pairs[: number + 1 + _REACH]):
        has_input = f"input|{pair.a.name}" in fed
        if place > number and has_input and f"input|{pair.b.name}" in comparison.evaluation_b:
            yield comparison.glue(place, fed)


def _computing(glue: Glue, own: float) -> list[Candidate]:
    """Return what computes an input of side A again, if it is identified."""
    change = _computed(glue)
    if change is None:
        return []
    return [_changed(glue, change, _PARTLY if own else _STOPPED, _PASSED)]


def _changed(glue: Glue, change: dict[str, Any], one: str, other: str) -> Candidate:
    repairs = (glue_repair(glue, change),)
    return Candidate(_WHAT, one, other, (glue.layer,), repairs, is_training_only=True)


def _computed(glue: Glue) -> dict[str, Any] | None:
    """Return how the input of a layer is computed from what precedes it; None if not identified."""
    sources = glue.sources
    for name, source in sources.items():
        found = identify(source, glue.b, IDENTITY_BOUND)
        if found is not None:
            return {"from": name, **found}
    for first, second in permutations(sources, 2):
        found = identify_pair(sources[first], sources[second], glue.b, IDENTITY_BOUND)
        if found is not None:
            return change_of_pair(found, first, second)
    return rows_of_b(glue)
