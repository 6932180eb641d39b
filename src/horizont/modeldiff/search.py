"""The search for causes: which candidates are needed so that nothing differs but by rounding.

All candidates are applied at once. Then each is left out: it is a *cause* if a tensor exceeds its
bound without it. A candidate without an effect is dropped for good, so that of two that repair the
same tensors one remains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from horizont.modeldiff.distances import Difference
from horizont.modeldiff.repairs import Candidate

#: Runs side A with repairs, and returns all distances to side B in order.
Trial = Callable[[Sequence[Candidate]], list[Difference]]


@dataclass(frozen=True)
class Cause:
    """A candidate that is needed.

    Attributes
    ----------
    explained
        Differences that are there without it only, in order.
    repaired
        The first of them with the repair.
    """

    candidate: Candidate
    explained: tuple[Difference, ...]
    repaired: Difference


@dataclass(frozen=True)
class Explanation:
    """All causes, what remains unexplained, and what had no effect."""

    causes: tuple[Cause, ...]
    unexplained: tuple[Difference, ...]
    without_effect: tuple[Candidate, ...]
    remaining: tuple[Difference, ...]


def explain(candidates: Sequence[Candidate], trial: Trial) -> Explanation:
    """Find the candidates that are needed."""
    needed = list(candidates)
    final = trial(needed)
    without_effect: list[Candidate] = []
    effects: dict[int, list[Difference]] = {}
    for candidate in candidates:
        others = [each for each in needed if each is not candidate]
        differences = trial(others)
        if _exceeding(differences) <= _exceeding(final):
            needed, final = others, differences
            without_effect.append(candidate)
        else:
            effects[id(candidate)] = differences
    final_by_key = {each.key: each for each in final}
    causes = []
    for candidate in needed:
        explained = tuple(
            each
            for each in effects[id(candidate)]
            if each.exceeds and not final_by_key[each.key].exceeds
        )
        causes.append(Cause(candidate, explained, final_by_key[explained[0].key]))
    order = {each.key: number for number, each in enumerate(final)}
    causes.sort(key=lambda cause: order[cause.explained[0].key])
    return Explanation(
        tuple(causes),
        tuple(each for each in final if each.exceeds),
        tuple(without_effect),
        tuple(final),
    )


def _exceeding(differences: Sequence[Difference]) -> set[str]:
    return {each.key for each in differences if each.exceeds}
