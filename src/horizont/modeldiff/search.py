"""The search for causes: which candidates are needed so that nothing differs but by rounding.

All candidates are applied at once. Then each is left out: it is a *cause* if a tensor exceeds its
bound without it. A candidate without an effect is dropped for good, so that of two that repair the
same tensors one remains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from horizont.modeldiff.distances import Difference
from horizont.modeldiff.repairs import Candidate

#: Runs side A with repairs, and returns all distances to side B in order; nothing if the model
#: cannot run so, because shapes do not fit.
Trial = Callable[[Sequence[Candidate]], list[Difference]]


@dataclass(frozen=True)
class Cause:
    """A candidate that is needed.

    Attributes
    ----------
    explained
        Differences that are there without it only, in order; none if all runs disable it.
    repaired
        The first of them with the repair.
    """

    candidate: Candidate
    explained: tuple[Difference, ...] = ()
    repaired: Difference | None = None


@dataclass(frozen=True)
class Explanation:
    """All causes, what remains unexplained, and what had no effect.

    Attributes
    ----------
    remaining
        All differences, with all repairs.
    note
        Why there is no more to say, in a sentence; empty in general.
    unknown
        Why two losses or optimizers could not be compared; likewise.
    """

    causes: tuple[Cause, ...] = ()
    unexplained: tuple[Difference, ...] = ()
    without_effect: tuple[Candidate, ...] = ()
    remaining: tuple[Difference, ...] = ()
    note: str = ""
    unknown: str = ""


def fitting(
    candidates: Sequence[Candidate], can_run: Callable[[Sequence[Candidate]], bool]
) -> list[Candidate]:
    """Return the candidates with whose repairs side A can be run: some only look like a cause."""
    if can_run(candidates):
        return list(candidates)
    return [each for each in candidates if can_run([each])]


def explain(candidates: Sequence[Candidate], trial: Trial) -> Explanation:
    """Find the candidates that are needed."""
    needed = list(candidates)
    final = trial(needed)
    without_effect: list[Candidate] = []
    effects: dict[int, list[Difference]] = {}
    for candidate in candidates:
        others = [each for each in needed if each is not candidate]
        differences = trial(others) or _failed(candidate, final)
        if _exceeding(differences) <= _without_evidence(final):
            needed, final = others, differences
            without_effect.append(candidate)
        else:
            effects[id(candidate)] = differences
    final_by_key = {each.key: each for each in final}
    hidden = _without_evidence(final)
    causes = []
    for candidate in needed:
        explained = tuple(
            each for each in effects[id(candidate)] if each.exceeds and each.key not in hidden
        )
        first = explained[0]
        # A tensor that is not trained has no update with the repair.
        repaired = final_by_key.get(first.key, replace(first, distance=0.0))
        causes.append(Cause(candidate, explained, repaired))
    order = {each.key: number for number, each in enumerate(final)}
    causes.sort(key=lambda cause: order.get(cause.explained[0].key, len(order)))
    return Explanation(
        tuple(causes),
        tuple(each for each in final if each.exceeds),
        tuple(without_effect),
        tuple(final),
    )


def _failed(candidate: Candidate, final: Sequence[Difference]) -> list[Difference]:
    """Return what a trial that cannot run would have shown: differences of its own layers."""
    own = [each for each in final if each.layer in candidate.layers]
    return [replace(each, distance=math.inf) for each in own or final]


def _exceeding(differences: Sequence[Difference]) -> set[str]:
    return {each.key for each in differences if each.exceeds}


def _without_evidence(differences: Sequence[Difference]) -> set[str]:
    """Return what does not agree, or agrees within a bound that hides any defect."""
    return {each.key for each in differences if each.exceeds or each.is_mute}
