"""Layers of equal shapes in branches, which the two sides may execute in another order.

Nothing in kinds, shapes and order says which is which; what is computed from them does. Where an
input or the result remains unexplained, layers of equal shapes around it are exchanged, and the
pairs with fewer divergences remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import Difference
from horizont.modeldiff.pairing import Pair, Pairing, signature
from horizont.modeldiff.recording import Repair

#: How many layers before and after a divergence are exchanged.
_REACH = 6


def better_pairing(
    comparison: Comparison, unexplained: Sequence[Difference], repairs: Sequence[Repair]
) -> Pairing | None:
    """Return pairs with two layers exchanged that explain more; None if there are none."""
    places = {pair.a.name: number for number, pair in enumerate(comparison.pairs)}
    places[""] = len(comparison.pairs)
    between = [each for each in unexplained if each.quantity in ("input", "result")]
    if not between:
        return None
    place = places[between[0].layer]
    start, end = max(place - _REACH, 0), min(place + _REACH, len(comparison.pairs))
    before = _divergences(comparison, repairs)
    for one, other in combinations(range(start, end), 2):
        pairs = list(comparison.pairs)
        if signature(pairs[one].b) != signature(pairs[other].b):
            continue
        pairs[one], pairs[other] = (
            Pair(pairs[one].a, pairs[other].b, is_tie=True),
            Pair(pairs[other].a, pairs[one].b, is_tie=True),
        )
        pairing = replace(comparison.pairing, pairs=tuple(pairs))
        if _divergences(comparison.with_pairing(pairing), repairs) < before:
            return pairing
    return None


def _divergences(comparison: Comparison, repairs: Sequence[Repair]) -> int:
    """Return how many inputs and outputs diverge, each layer alone."""
    found = comparison.compare_fed(comparison.run_fed(repairs))
    return sum(each.exceeds for each in found)
