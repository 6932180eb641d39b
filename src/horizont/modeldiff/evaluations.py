"""Two evaluations side by side: what one side feeds the other, and what limits the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from horizont.modeldiff.common_shapes import unpadded
from horizont.modeldiff.distances import Difference
from horizont.modeldiff.pairing import Pair, flattened
from horizont.modeldiff.recording import Array, Recording, Repair

if TYPE_CHECKING:
    from horizont.modeldiff.comparison import Comparison

#: With how many other weights a divergence in float32 is looked for again.
OTHER_WEIGHTS = 3


def fed_tensors(pairs: Sequence[Pair], a: Recording, b: Recording) -> dict[str, Array]:
    """Return inputs and outputs of side B under the names, and in the shapes, of side A."""
    found = {}
    for pair in pairs:
        for quantity in ("input", "output"):
            name, own = f"{quantity}|{pair.b.name}", f"{quantity}|{pair.a.name}"
            if name not in b or own not in a:
                continue
            theirs, mine = b[name], a[own]
            if quantity == "input":
                mine, theirs, zeros = unpadded(pair, mine, theirs)
                if np.any(zeros[0]):  # side A expects the zeros in its input
                    theirs = np.pad(theirs, [(0, 0), (0, 0), *map(tuple, zeros[0])])
            theirs = _with_last_step(mine, theirs)
            if mine.ndim == theirs.ndim and mine.shape[:1] == (1,):  # one for all
                theirs = theirs[:1]
            elif theirs.ndim and len(theirs) == 1 and mine.shape[1:] == theirs.shape[1:]:
                theirs = np.broadcast_to(theirs, mine.shape)
            found[own] = flattened(theirs, mine)
    return found


def _with_last_step(mine: Array, theirs: Array) -> Array:
    """Return an output of side B, of which one side may have the last step alone, as A has it."""
    if mine.ndim == 3 and mine[:, -1].shape == theirs.shape:
        return np.concatenate([mine[:, :-1], theirs[:, None].astype(mine.dtype)], axis=1)
    if theirs.ndim == 3 and theirs[:, -1].shape == mine.shape:
        return theirs[:, -1]
    return theirs


def not_finite(pairs: Sequence[Pair], a: Recording, b: Recording) -> str:
    """Name the first tensor with values that are not finite on both sides; empty if none has."""
    names = [
        (f"{quantity}|{pair.a.name}", f"{quantity}|{pair.b.name}", f"{quantity} of {pair.a.name}")
        for pair in pairs
        for quantity in ("input", "output")
    ]
    for own, other, text in (*names, ("result", "result", "result")):
        both = a.get(own), b.get(other)
        if all(each is not None and not np.isfinite(each).all() for each in both):
            return text
    return ""


def statistics_after(recording: Recording) -> dict[str, Array]:
    """Return the running statistics after a run, as weights."""
    return {
        key.removeprefix("after|"): value
        for key, value in recording.items()
        if key.startswith("after|") and key.endswith(("|mean", "|variance"))
    }


def in_float32(comparison: Comparison, repairs: Sequence[Repair]) -> list[Difference]:
    """Compare in float32; a divergence is believed if other weights have it, too.

    Rounding moves a unit across the kink of its activation, and with it a gradient, for some
    weights; a defect is there for all.
    """

    def compared(one: Comparison) -> list[Difference]:
        single = one.in_float32(repairs)
        trained = single.train(repairs) if single.can_train else []
        return [*single.evaluate(repairs), *trained]

    found = compared(comparison)
    for seed in range(OTHER_WEIGHTS):
        if not any(each.exceeds for each in found):
            break
        other = {each.key: each for each in compared(comparison.with_moved_weights(seed))}
        found = [each if not each.exceeds else other.get(each.key, each) for each in found]
    return found
