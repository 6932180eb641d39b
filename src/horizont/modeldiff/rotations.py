"""Which rotation of queries and keys by the position of their step attention contains, if any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from horizont.modeldiff.attended import by_heads, rotated
from horizont.modeldiff.identification import ArrayNamespace, largest
from horizont.modeldiff.recording import Array

#: Bases of the frequencies: that of the publication, and those for longer texts.
_BASES = (1e4, 5e5, 1e6, 1e5, 1e3, 1e2)

#: The relative difference below which settings are right but for rounding.
_NEAR = 1e-4

#: Of the search for frequencies: iterations, and the difference for a derivative.
_MOST_ITERATIONS, _DIFFERENCE = 4, 1e-6


@dataclass(frozen=True)
class LastStep:
    """What attention computes for the last step of one example, which no mask changes.

    Attributes
    ----------
    queries, keys, values
        (heads, steps, features).
    goal
        What attention should return, (heads, 1, features).
    """

    queries: Array
    keys: Array
    values: Array
    goal: Array

    @classmethod
    def of(cls, parts: Sequence[Array], target: Array, heads: Mapping[str, Any]) -> LastStep:
        """Return it for queries, keys, values and results, (examples, steps, features)."""
        every = {"heads": heads["heads"]}
        queries, keys, values, goal = (
            by_heads(ArrayNamespace, each[:1], settings)[0]
            for each, settings in zip((*parts, target), (every, heads, heads, every), strict=True)
        )
        return cls(queries, keys, values, goal[:, -1:])

    @property
    def is_square(self) -> bool:
        """Whether there are as many queries as keys, so that keys of later steps may be hidden."""
        return bool(self.queries.shape[1] == self.keys.shape[1])

    def products(self) -> Array:
        """Return the products of the last query with all keys."""
        found: Array = self.queries[:, -1:] @ self.keys.swapaxes(1, 2)
        return found

    def rest(self, scale: float) -> Array:
        """Return what differs from the goal."""
        weights = ArrayNamespace.softmax(self.products() * scale)
        found: Array = self.goal - weights @ self.values
        return found

    def is_near(self, scale: float) -> bool:
        """Whether it is the goal but for rounding."""
        return bool(np.max(np.abs(self.rest(scale))) <= _NEAR * largest(self.goal))

    def rotated(self, rotation: str, frequencies: Array) -> LastStep:
        """Return it with queries and keys that are rotated."""
        queries, keys = (
            rotated(ArrayNamespace, each[None], rotation, frequencies.tolist())[0]
            for each in (self.queries, self.keys)
        )
        return replace(self, queries=queries, keys=keys)


def rotations(last: LastStep) -> Iterator[dict[str, Any]]:
    """List the rotations, and their frequencies, with which the last step is right.

    Frequencies are powers of a base (Su et al. 2021, arXiv:2104.09864, section 3.2.2), and fitted
    if they are those but for rounding.
    """
    size = last.queries.shape[2]
    if size % 2 or not last.is_square:
        return
    scale = size**-0.5
    for rotation in ("halves", "adjacent"):
        for base in _BASES:
            frequencies = base ** (-np.arange(0, size, 2) / size)
            if not last.rotated(rotation, frequencies).is_near(scale):
                continue

            def rest(each: Array, rotation: str = rotation) -> Array:
                return last.rotated(rotation, each).rest(scale).ravel()

            found = {"scale": scale, "rotation": rotation, "base": base}
            yield {**found, "frequencies": frequencies.tolist()}
            yield {**found, "frequencies": _fitted(frequencies, rest).tolist()}


def _fitted(frequencies: Array, rest_of: Callable[[Array], Array]) -> Array:
    """Return the frequencies for which nothing is missing, by Gauss and Newton."""
    for _ in range(_MOST_ITERATIONS):
        rest = rest_of(frequencies)
        steps = np.diag(_DIFFERENCE * frequencies)
        slopes = np.stack([(rest - rest_of(frequencies + step)) / step.sum() for step in steps])
        frequencies = frequencies + np.linalg.lstsq(slopes.T, rest, rcond=None)[0]
    return frequencies
