"""Layers of equal shapes in branches, which the two sides may execute in another order.

Nothing in kinds, shapes and order says which is which; what is computed from them does. At first,
one of several pairings is chosen. Where an input or the result remains unexplained, layers of equal
shapes around it are exchanged. The pairs with fewer divergences remain.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations

from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import Difference
from horizont.modeldiff.inputs import displaced
from horizont.modeldiff.links import refined
from horizont.modeldiff.pairing import (
    Pair,
    Pairing,
    full_signature,
    have_same_order,
    pair_layers,
    signature,
)
from horizont.modeldiff.process import RunFailed
from horizont.modeldiff.recording import Layer, Repair, Request, Side

#: How many layers before and after a divergence are exchanged.
_REACH = 6


def best_pairing(a: Side, b: Side, layers_a: Sequence[Layer], layers_b: Sequence[Layer]) -> Pairing:
    """Pair layers by connections and settings, by connections, or by order alone.

    Whichever makes the fewest inputs and outputs diverge.
    """
    by_order = pair_layers(layers_a, layers_b)
    if have_same_order(layers_a, layers_b):
        return by_order
    both = zip(_connections(a, layers_a), _connections(b, layers_b), strict=True)
    found = [pair_layers(layers_a, layers_b, list(zip(*each, strict=True))) for each in both]
    found += [by_order]
    if not by_order.pairs or not (a.can_run or b.can_run):
        return found[0]

    def diverging(pairing: Pairing) -> float:
        sides = (a, b, pairing) if a.can_run else (b, a, pairing.swapped())
        return divergences(Comparison(*sides))

    different = [each for n, each in enumerate(found) if each not in found[:n]]
    return min(different, key=diverging) if len(different) > 1 else found[0]


def _connections(side: Side, layers: Sequence[Layer]) -> list[list[list[Hashable]]]:
    """Return what the layers of a side are connected to, with their settings and without."""
    weights = displaced(side.weights()) if side.can_run else side.weights()
    recording = side.run(Request(weights))
    signatures = ([full_signature(each) for each in layers], [signature(each) for each in layers])
    return [refined(layers, each, recording) for each in signatures]


def better_pairing(
    comparison: Comparison, unexplained: Sequence[Difference], repairs: Sequence[Repair]
) -> Pairing | None:
    """Return pairs with two layers exchanged that explain more; None if there are none."""
    places = {pair.a.name: number for number, pair in enumerate(comparison.pairs)}
    places[""] = len(comparison.pairs)
    between = [each for each in unexplained if each.quantity == "input" or each.key == "result"]
    if not between:
        return None
    place = places[between[0].layer]
    start, end = max(place - _REACH, 0), min(place + _REACH, len(comparison.pairs))
    before = divergences(comparison, repairs)
    for one, other in combinations(range(start, end), 2):
        pairs = list(comparison.pairs)
        if signature(pairs[one].b) != signature(pairs[other].b):
            continue
        pairs[one], pairs[other] = (
            Pair(pairs[one].a, pairs[other].b, is_tie=True),
            Pair(pairs[other].a, pairs[one].b, is_tie=True),
        )
        pairing = replace(comparison.pairing, pairs=tuple(pairs))
        if divergences(comparison.with_pairing(pairing), repairs) < before:
            return pairing
    return None


def divergences(comparison: Comparison, repairs: Sequence[Repair] = ()) -> float:
    """Return how many inputs and outputs diverge, each layer alone; all if side A cannot run."""
    try:
        found = comparison.compare_fed(comparison.run_fed(repairs))
    except RunFailed:
        return math.inf
    return sum(each.exceeds for each in found)
