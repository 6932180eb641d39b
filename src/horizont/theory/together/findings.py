"""What groups of processes came to, held against one process and against the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.backpropagation import WEIGHTS
from horizont.theory.cuts import MEMBERS, WAYS
from horizont.theory.parallelism import SMALL, STEPS, trained_alone
from horizont.theory.ring import NUMBERS, ring_bytes, ring_states, summands
from horizont.theory.together.exercises import RINGS, SHOWN, largest_group

Array = NDArray[Any]


@dataclass(frozen=True)
class Together:
    """What groups of processes came to.

    Attributes
    ----------
    told
        By who did it, `numpy` or a framework, and `<exercise>/<rank>/<what>`; a framework that is
        not installed is left out.
    """

    told: Mapping[str, Mapping[str, Array]]

    def of(self, doer: str, exercise: str, what: str) -> list[Array]:
        """List an array of all members that have it, by rank."""
        told = self.told.get(doer, {})
        names = (f"{exercise}/{rank}/{what}" for rank in range(largest_group()))
        return [told[name] for name in names if name in told]

    def sent_bytes(self, doer: str, exercise: str, witness: str = "kernel") -> list[int] | None:
        """List what each member sent.

        Parameters
        ----------
        witness
            `kernel`, or `socket`: what NumPy's members handed over themselves.

        Returns
        -------
        list or None
            None if it was not done, or not counted.
        """
        return [int(counted[0]) for counted in self.of(doer, exercise, witness)] or None

    def received_bytes(self, doer: str, exercise: str, witness: str = "kernel") -> list[int] | None:
        """List what each member received, likewise."""
        return [int(counted[1]) for counted in self.of(doer, exercise, witness)] or None

    def way_distance(self, doer: str, name: str) -> float | None:
        """Tell how far a way to train is from one process, at most of any weight or gradient.

        Returns
        -------
        float or None
            The norm of the difference, divided by the norm; None if it was not done.
        """
        if not self.of(doer, name, "weight W2"):
            return None
        first, after = trained_alone()
        expected = {f"gradient {w}": value for w, value in first.items()}
        expected |= {f"weight {w}": value for w, value in after.items()}
        found = {
            what: WAYS[name].whole(what.rpartition(" ")[2], self.of(doer, name, what))
            for what in expected
        }
        return max(_distance(found[what], value) for what, value in expected.items())

    def copies_agree(self, doer: str, name: str) -> bool:
        """Tell whether what several processes hold whole is the same, bit for bit."""
        kept = WAYS[name].held
        whole = [w for w in WEIGHTS if w not in kept]
        held = [self.of(doer, name, f"weight {w}") for w in whole]
        return all(np.array_equal(parts[0], part) for parts in held for part in parts)

    def sum_distance(self, doer: str, exercise: str, workers: int) -> float | None:
        """Tell how far the sum of any member is from the sum in one process; None if not done."""
        sums = self.of(doer, exercise, "sum")
        expected = summands(workers).sum(axis=0)
        return max((_distance(found, expected) for found in sums), default=None)

    def ring_moments(self) -> Array:
        """Tell what NumPy's processes held after each step, (moments, processes, chunks)."""
        return np.stack(self.of("numpy", "ring, step by step", "held"), axis=1)


def found_in_parallelism(together: Together) -> dict[str, float]:
    """Name the numbers of chapter 7."""
    distances = [together.way_distance(doer, name) for doer in together.told for name in WAYS]
    counts = {name: together.sent_bytes("numpy", name, "socket") for name in WAYS}
    exact = [_all_are(counts[name], 8 * STEPS * way.sent(SMALL)) for name, way in WAYS.items()]
    return {
        "processes_that_trained": float(sum(MEMBERS * len(WAYS) for _ in together.told)),
        "farthest_from_one_process": max(found for found in distances if found is not None),
        "ways_that_sent_what_the_formula_says": float(sum(exact)),
        **{f"numbers_sent_a_step,_{name}": float(way.sent(SMALL)) for name, way in WAYS.items()},
    }


def found_in_ring(together: Together) -> dict[str, float]:
    """Name the numbers of chapter 9."""
    differing = np.any(together.ring_moments() != ring_states(SHOWN), axis=(1, 2))
    distances = [
        together.sum_distance(doer, f"{kind} of {n}", n)
        for doer in together.told
        for kind in ("ring", "server")
        for n in RINGS
    ]
    return {
        "bytes_of_the_array": 8.0 * NUMBERS,
        "exchanges_that_sent_what_the_formula_says": float(exact_exchanges(together, "socket")),
        "of_them_by_the_kernel's_count,_too": float(exact_exchanges(together, "kernel")),
        "moments_at_which_a_process_held_something_else": float(np.sum(differing)),
        "farthest_from_the_sum_in_one_process": max(d for d in distances if d is not None),
    }


def exact_exchanges(together: Together, witness: str) -> int:
    """Count the rings and servers, of NumPy, that sent and received just what the formulas say."""
    size = 8 * NUMBERS
    exact = 0
    for n in RINGS:
        for way in (together.sent_bytes, together.received_bytes):
            ring, server = (way("numpy", f"{kind} of {n}", witness) for kind in ("ring", "server"))
            exact += _all_are(ring, ring_bytes(n, size))
            exact += server == [size] * n + [n * size]
    return exact // 2


def _all_are(found: list[int] | None, expected: float) -> bool:
    return bool(found) and set(found or ()) == {expected}


def _distance(found: Array, expected: Array) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
