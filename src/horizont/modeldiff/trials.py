"""Trials with candidates in two models, by which the search decides what is a cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import Difference
from horizont.modeldiff.gradient_flow import gradient_candidates
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.repairs import Candidate, repairs_of
from horizont.modeldiff.search import Explanation, explain, fitting


def search_causes(
    comparison: Comparison, every: Sequence[Candidate], progress: Callable[[str], object]
) -> Explanation:
    """Find which candidates are needed, first of evaluation and settings, then of gradients."""
    candidates = fitting([each for each in every if each.repairs], comparison.can_run)
    comparison.noise_repairs = repairs_of(candidates)
    trial = _trial(comparison, candidates, progress)
    found = explain(candidates, trial)
    if not {each.quantity for each in found.unexplained} <= {"gradient", "update"}:
        return found
    known = [cause.candidate for cause in found.causes]
    sets = gradient_candidates(comparison, repairs_of(known)) if found.unexplained else []
    for candidates in sets:
        after = trial([*known, *candidates])
        if after and not any(each.exceeds for each in after):
            more = explain(candidates, lambda chosen: trial([*known, *chosen]))
            causes = (*found.causes, *more.causes)
            return replace(more, causes=causes, without_effect=found.without_effect)
    return found


def _trial(
    comparison: Comparison, candidates: Sequence[Candidate], progress: Callable[[str], object]
) -> Callable[[Sequence[Candidate]], list[Difference]]:
    """Return what evaluates and trains side A with the repairs of chosen candidates."""
    training_only = {id(each) for each in candidates if each.is_training_only}

    @cache
    def evaluated(chosen: frozenset[int]) -> list[Difference]:
        repairs = repairs_of([each for each in candidates if id(each) in chosen])
        return comparison.compare_fed(comparison.run_fed(repairs))

    explained: set[str] = set()
    trials: list[int] = []

    def trial(chosen: Sequence[Candidate]) -> list[Difference]:
        trials.append(len(chosen))
        progress(f"repairing and training, {len(trials)} of {len(candidates) + 1}")
        repairs = repairs_of(chosen)
        is_first = len(trials) == 1
        try:
            fed = evaluated(frozenset(map(id, chosen)) - training_only)
            if is_first:
                explained.update(each.key for each in fed if not each.exceeds)
            elif any(each.exceeds and each.key in explained for each in fed):
                return fed  # training cannot say more
            return fed + (comparison.train(repairs) if comparison.can_train else [])
        except RunFailed:
            if is_first:
                raise
            return []

    return trial
