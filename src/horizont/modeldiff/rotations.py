"""Which rotation of queries and keys by the position of their step attention contains, if any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from horizont.modeldiff.attended import by_heads, rotated, rotation_tables
from horizont.modeldiff.identification import ArrayNamespace, largest
from horizont.modeldiff.recording import Array

#: Bases of the frequencies: that of the publication, and those for longer texts.
_BASES = (1e4, 5e5, 1e6, 1e5, 1e3, 1e2)

#: The relative difference below which settings are right but for rounding.
_NEAR = 1e-4

#: Which shares of the features of a head published models rotate.
_SHARES = (1.0, 0.5, 0.25, 0.75, 0.4)

#: How precise the rotation is that a publication defines.
IN_DOUBLE = "double"

#: Of the search for numbers: iterations, the step at which it ends, and the difference for a
#: derivative.
_MOST_ITERATIONS, _CONVERGED, _DIFFERENCE = 4, 1e-11, 1e-6

#: More cosines and sines are not fitted.
_MOST_NUMBERS = 1024


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
    if they are those but for rounding. All features of a head are rotated, or a share of them.
    """
    size = last.queries.shape[2]
    if not last.is_square:
        return
    scale = size**-0.5
    shares = dict.fromkeys(int(size * share) for share in _SHARES)
    counts = [count for count in shares if count and count % 2 == 0]
    for count, rotation, base in product(counts, ("halves", "adjacent"), _BASES):
        frequencies = base ** (-np.arange(0, count, 2) / count)
        if not last.rotated(rotation, frequencies).is_near(scale):
            continue

        def rest(each: Array, rotation: str = rotation) -> Array:
            return last.rotated(rotation, each).rest(scale).ravel()

        found = {"scale": scale, "rotation": rotation, "base": base}
        yield {**found, "frequencies": frequencies.tolist()}
        fitted = _fitted(frequencies, rest)
        for each in (fitted.astype(np.float32), fitted):
            yield {**found, "frequencies": each.tolist()}


def described(attention: dict[str, Any] | None) -> dict[str, Any]:
    """Return the settings of attention with how many features are rotated, and how precisely."""
    if attention is None or "rotation" not in attention:
        return attention or {}
    frequencies = np.array(attention["frequencies"])
    count = 2 * len(frequencies)
    found = {**attention, "rotated": count}
    if "tables" in attention:
        found["precision"] = "tables in single"
    elif np.array_equal(frequencies, attention["base"] ** (-np.arange(0, count, 2) / count)):
        found["precision"] = IN_DOUBLE
    elif np.array_equal(frequencies, frequencies.astype(np.float32)):
        found["precision"] = "frequencies in single"
    return found


def with_rounded_tables(
    attention: dict[str, Any], steps: int, rest_of: Callable[[dict[str, Any]], Array]
) -> dict[str, Any] | None:
    """Return attention with the cosines and sines in single precision with which it is right.

    They are fitted, as the last digit of a cosine depends on the library that computed it.

    Parameters
    ----------
    attention
        One with a rotation that is right but for rounding.
    rest_of
        Returns what is missing from what attention should return.

    Returns
    -------
    dict or None
        None if there are too many steps.
    """
    exact = np.array(rotation_tables(attention["frequencies"], steps))
    later = exact[:, 1:]  # at the first step, the angle is zero
    if later.size > _MOST_NUMBERS:
        return None

    def with_tables(numbers: Array) -> dict[str, Any]:
        tables = np.concatenate([exact[:, :1], numbers.reshape(later.shape)], axis=1)
        return {**attention, "tables": tables.tolist()}

    fitted = _fitted(later.ravel(), lambda numbers: rest_of(with_tables(numbers)).ravel())
    return with_tables(fitted.astype(np.float32))


def _fitted(numbers: Array, rest_of: Callable[[Array], Array]) -> Array:
    """Return the numbers for which nothing is missing, by Gauss and Newton."""
    for _ in range(_MOST_ITERATIONS):
        rest = rest_of(numbers)
        steps = np.diag(_DIFFERENCE * numbers)
        slopes = np.stack([(rest - rest_of(numbers + step)) / step.sum() for step in steps])
        change = np.linalg.lstsq(slopes.T, rest, rcond=None)[0]
        numbers = numbers + change
        if np.max(np.abs(change)) <= _CONVERGED:
            break
    return numbers
