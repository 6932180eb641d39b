"""What one side alone computes in single precision, although both are compared in double.

Numbers of single precision alone are no evidence: the rows of a table have them, too, and so has a
file of images. What shows it was computed, and the other side has the same but for rounding. A norm
may compute in single precision and multiply by its weight in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from horizont.equivalence.bounds import norm
from horizont.modeldiff.common_shapes import aligned, unpadded
from horizont.modeldiff.distances import Difference, distance
from horizont.modeldiff.identification import IDENTITY_BOUND, is_copy, is_single
from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.recording import Array, Layer, Recording

#: What a layer that computes in single precision moves a tensor by at most, relative to it.
SINGLE_PRECISION = 1e-6

#: Of a difference by rounding, at least this share is random, whatever factor explains the rest:
#: a constant that is rounded is off by 6e-8 at most, and a product with it by 2e-8 of its own.
_RANDOM_SHARE = 0.25


#: The rounding of a product and a quotient in double precision, relative to them.
_OF_DOUBLE = 4 * float(np.finfo(np.float64).eps)


class Precision:
    """The tensors of two sides in evaluation, and those of them that are in single precision.

    Parameters
    ----------
    a
        Side A as it is; with repairs it is what each method gets.
    given
        Weights and the batch, which may have single precision on either side.
    weights
        The weights of both sides by their names.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        a: Recording,
        b: Recording,
        given: Sequence[Array],
        weights: tuple[Mapping[str, Array], Mapping[str, Array]] = ({}, {}),
    ) -> None:
        self._pairs, self._a, self._b, self._given = pairs, a, b, given
        self._weights = weights

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
        if not any(key.startswith("input|") or key in self._passed_on for key in tensors):
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

    @cached_property
    def _passed_on(self) -> set[str]:
        """Outputs, by names of side A, that another layer gets as they are."""
        found = set()
        for side, recorded in enumerate((self._a, self._b)):
            names = [(pair.a.name, pair.b.name)[side] for pair in self._pairs]
            inputs = [recorded[f"input|{name}"] for name in names if f"input|{name}" in recorded]
            for pair, name in zip(self._pairs, names, strict=True):
                output = recorded.get(f"output|{name}")
                if output is not None and any(np.array_equal(output, each) for each in inputs):
                    found.add(f"output|{pair.a.name}")
        return found

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
        scaled: tuple[list[Array], list[Array]] = [], []
        for pair in self._pairs:
            for quantity in ("input", "output"):
                name = f"{quantity}|{pair.a.name}"
                one, other = a.get(name), self._b.get(f"{quantity}|{pair.b.name}")
                if one is None or other is None:
                    continue
                for found, layer, value, weights in zip(
                    scaled, (pair.a, pair.b), (one, other), self._weights, strict=True
                ):
                    if quantity == "output" and _is_scaled_single(layer, value, weights):
                        found.append(value)
                is_own, is_other = (
                    is_single(value) or any(np.array_equal(value, each) for each in found)
                    for value, found in zip((one, other), scaled, strict=True)
                )
                if is_own == is_other:
                    continue
                single = one if is_own else other
                if quantity == "input":
                    one, other, _ = unpadded(pair, one, other)
                yield name, one, other, single


def _is_random(a: Array, b: Array) -> bool:
    """Whether two tensors of a shape differ by more than a factor, as they do by rounding."""
    one, other = a.ravel(), b.ravel()
    factor = float(one @ other) / max(float(one @ one), 1e-300)
    return bool(norm(other - factor * one) > _RANDOM_SHARE * norm(other - one))


def _is_scaled_single(layer: Layer, output: Array, weights: Mapping[str, Array]) -> bool:
    """Whether a norm has multiplied what is in single precision by its only weight, a vector."""
    scales = [weights.get(f"{layer.name}|{role}") for role in layer.shapes]
    is_norm = layer.kind.endswith("norm") or layer.kind == "other"
    if not is_norm or len(scales) != 1 or (scale := scales[0]) is None or not scale.all():
        return False
    if scale.ndim != 1 or output.dtype != np.float64 or output.shape[-1:] != scale.shape:
        return False
    for part in (output[:1], output):  # one example excludes most outputs
        plain = part / scale
        in_single = plain.astype(np.float32)
        if not np.all(np.abs(plain - in_single) <= _OF_DOUBLE * np.abs(plain)):
            return False
    return True
