"""What one side alone computes in single precision, although both are compared in double.

Numbers of single precision alone are no evidence: the rows of a table have them, too, and so has a
file of images. What shows it was computed, and the other side has the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

from horizont.equivalence.bounds import norm
from horizont.modeldiff.distances import Difference, aligned, distance, unpadded
from horizont.modeldiff.identification import IDENTITY_BOUND, is_copy, is_single
from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.recording import Array, Recording

#: What a layer that computes in single precision moves a tensor by at most, relative to it.
SINGLE_PRECISION = 1e-6

#: Of a difference by rounding, at least this share is random, whatever factor explains the rest:
#: a constant that is rounded is off by 6e-8 at most, and a product with it by 2e-8 of its own.
_RANDOM_SHARE = 0.25


class Precision:
    """The tensors of two sides in evaluation, and those of them that are in single precision.

    Parameters
    ----------
    a
        Side A as it is; with repairs it is what each method gets.
    given
        Weights and the batch, which may have single precision on either side.
    """

    def __init__(
        self, pairs: Sequence[Pair], a: Recording, b: Recording, given: Sequence[Array]
    ) -> None:
        self._pairs, self._a, self._b, self._given = pairs, a, b, given

    @cached_property
    def is_mixed(self) -> bool:
        """Whether one side alone has a tensor with the numbers of single precision."""
        return any(True for _ in self._mixed(self._a))

    def layers(self, a: Recording) -> tuple[str, ...]:
        """List layers of side A whose input one side alone has computed in single precision."""
        found = [key.partition("|") for key in self.tensors(a)]
        return tuple(layer for quantity, _, layer in found if quantity == "input")

    def bounded(self, found: Sequence[Difference], a: Recording) -> list[Difference]:
        """Return differences with the bound of single precision, if they may follow from it.

        What a layer returns counts if another one gets it: the output of the last one is in no
        input, and no bound hides it.
        """
        tensors = self.tensors(a)
        if not any(key.startswith("input|") for key in tensors):
            return list(found)
        first = tensors[0].partition("|")[2]
        before = {*takewhile(lambda name: name != first, (pair.a.name for pair in self._pairs))}
        return [
            # A gradient depends on all that follows its layer.
            each
            if each.layer in before and each.quantity in ("input", "output", "statistics")
            else replace(each, bound=max(each.bound, SINGLE_PRECISION))
            for each in found
        ]

    def tensors(self, a: Recording) -> list[str]:
        """List what one side alone has computed in single precision, by names of side A."""
        return [
            name
            for name, one, other, single in (self._mixed(a) if self.is_mixed else ())
            if IDENTITY_BOUND < distance(one, other) <= SINGLE_PRECISION
            and _is_random(*aligned(one, other))
            and not is_copy(single, self._given)
        ]

    def _mixed(self, a: Recording) -> Iterator[tuple[str, Array, Array, Array]]:
        """List tensors of both sides of which one is in single precision, and that one."""
        for pair in self._pairs:
            for quantity in ("input", "output"):
                name = f"{quantity}|{pair.a.name}"
                one, other = a.get(name), self._b.get(f"{quantity}|{pair.b.name}")
                if one is None or other is None or is_single(one) == is_single(other):
                    continue
                single = one if is_single(one) else other
                if quantity == "input":
                    one, other, _ = unpadded(pair, one, other)
                yield name, one, other, single


def _is_random(a: Array, b: Array) -> bool:
    """Whether two tensors of a shape differ by more than a factor, as they do by rounding."""
    one, other = a.ravel(), b.ravel()
    factor = float(one @ other) / max(float(one @ one), 1e-300)
    return bool(norm(other - factor * one) > _RANDOM_SHARE * norm(other - one))
