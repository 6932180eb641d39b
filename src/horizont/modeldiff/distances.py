"""Distances between recordings of two sides, beside what rounding can explain.

A gradient may be zero mathematically: that of a bias before batch norm, or of the keys' bias of
attention. All its digits are rounding, and relative to itself it differs by 100 per cent. So the
scale of a gradient is at least what its summands are: the norm of the gradient with respect to the
output of the layer, times that of its input for a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from horizont.equivalence.bounds import (
    EVIDENCE_BOUND,
    MAX_BOUND,
    NOISE_FACTOR,
    float32_bound,
    float64_bound,
    norm,
)
from horizont.modeldiff.common_shapes import aligned, cropped, unpadded
from horizont.modeldiff.pairing import STATISTICS, Pair
from horizont.modeldiff.recording import UPDATE_RATE, Array, Recording

#: What gradients differ by at most from those with a common factor.
FACTOR_BOUND = 1e-6

#: Units in the last place of all gradients together, which rounding alone may add to one of them,
#: as to that of attention to one step, which is zero. Of noise, which a bound is a multiple of, as
#: many are the same multiple.
ROUNDING_ULPS = 4.0
NOISE_ULPS = ROUNDING_ULPS / NOISE_FACTOR


@dataclass(frozen=True)
class Difference:
    """The distance of one tensor between the sides.

    Attributes
    ----------
    quantity
        ``input``, ``output``, ``result``, ``loss``, ``gradient``, ``update`` or ``statistics``.
    layer
        The name of the layer on side A; empty for the result and the loss.
    """

    quantity: str
    layer: str
    role: str
    distance: float
    bound: float

    @property
    def key(self) -> str:
        """Quantity, layer and role."""
        return "|".join(filter(None, (self.quantity, self.layer, self.role)))

    @property
    def exceeds(self) -> bool:
        """Whether rounding cannot explain the distance."""
        return not self.distance <= self.bound

    @property
    def is_mute(self) -> bool:
        """Whether the bound is so large that it could hide a defect."""
        return self.bound > EVIDENCE_BOUND


Values = dict[str, float]


def distance(a: Array, b: Array, scale: float = 0.0, rounding: float = 0.0) -> float:
    """Return the norm of a difference, relative to the norm of B or a larger scale.

    Of the difference, `rounding` is subtracted.
    """
    a, b = aligned(a, b)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    difference = norm(a.astype(np.float64) - b) - rounding
    if difference <= 0:
        return 0.0
    scale = max(scale, norm(b))
    return difference / scale if scale > 0 else float("inf")


def forward_values(
    pairs: Iterable[Pair], a: Recording, b: Recording, with_inputs: bool = False
) -> Values:
    """Return the distances of outputs, and of inputs if they are asked for, in order."""
    found: Values = {}
    for pair in pairs:
        quantities = ("input", "output") if with_inputs else ("output",)
        for quantity in quantities:
            one, other = f"{quantity}|{pair.a.name}", f"{quantity}|{pair.b.name}"
            if one in a and other in b:
                left, right = a[one], b[other]
                if quantity == "input":
                    left, right, _ = unpadded(pair, left, right)
                elif pair.a.kind == "transposed convolution":
                    left, right = cropped(left, right)
                found[f"{quantity}|{pair.a.name}"] = distance(left, right)
    return found | _result_values(a, b)


def _result_values(a: Recording, b: Recording) -> Values:
    """Return the distances of the result, and of further ones that both sides return."""
    return {key: distance(a[key], b[key]) for key in ("result", *further_results(a, b))}


def further_results(a: Recording, b: Recording) -> list[str]:
    """List the results beside the first one that both have in the same place and shape."""
    return [
        key
        for key, value in b.items()
        if key.startswith("result|") and key in a and a[key].shape == value.shape
    ]


def training_values(
    pairs: Iterable[Pair],
    a: Recording,
    b: Recording,
    weights_b: Mapping[str, Array],
    ulps: float = ROUNDING_ULPS,
) -> Values:
    """Return the distances of result, loss, gradients, updates and running statistics.

    Of the difference of two gradients, so many units in the last place of all are subtracted.
    """
    found = _result_values(a, b)
    if "loss" in a and "loss" in b:
        # A loss is a sum, too, and may be small by cancellation.
        found["loss"] = distance(a["loss"], b["loss"], norm(b["result"]) / len(b["result"]) ** 0.5)
    rounding = ulps * max(map(_gradient_unit, (a, b)))
    for pair in pairs:
        for role_a, role_b in pair.shared_roles:
            one, other = f"{pair.a.name}|{role_a}", f"{pair.b.name}|{role_b}"
            if role_a in STATISTICS:
                key = f"statistics|{one}"
                found[key] = distance(a[f"after|{one}"], b[f"after|{other}"])
                continue
            scale = summands(pair.b.name, role_b, b)
            gradients = [a.get(f"gradient|{one}"), b.get(f"gradient|{other}")]
            if gradients[0] is not None and gradients[1] is not None:
                found[f"gradient|{one}"] = distance(gradients[0], gradients[1], scale, rounding)
            elif gradients[0] is None and gradients[1] is None:
                continue
            before, after = weights_b[other], b[f"after|{other}"]
            change = max(norm(after - before), UPDATE_RATE * scale)
            least = 8 * float(np.finfo(after.dtype).eps) * norm(before) + UPDATE_RATE * rounding
            moved = norm(a[f"after|{one}"].astype(np.float64).reshape(after.shape) - after)
            found[f"update|{one}"] = max(moved - least, 0.0) / (change or 1.0)
    return found


def _gradient_unit(recording: Recording) -> float:
    """Return the unit in the last place of all gradients together."""
    gradients = [each for key, each in recording.items() if key.startswith("gradient|")]
    eps = max((float(np.finfo(each.dtype).eps) for each in gradients), default=0.0)
    return eps * math.hypot(*map(norm, gradients))


def in_names_of_a(values: Values, pairs: Sequence[Pair]) -> Values:
    """Return values of side B by the names of side A."""
    names = {pair.b.name: pair.a.name for pair in pairs}
    roles = {
        f"{pair.b.name}|{b}": f"{pair.a.name}|{a}" for pair in pairs for a, b in pair.shared_roles
    }
    found = {}
    for key, value in values.items():
        quantity, _, rest = key.partition("|")
        renamed = roles.get(rest, names.get(rest, rest))
        found["|".join(filter(None, (quantity, renamed)))] = value
    return found


def gradient_factor(pairs: Iterable[Pair], a: Recording, b: Recording) -> float | None:
    """Return the factor that all gradients of B have relative to A; None if there is none."""
    factors = []
    for pair in pairs:
        for role_a, role_b in pair.shared_roles:
            one = a.get(f"gradient|{pair.a.name}|{role_a}")
            other = b.get(f"gradient|{pair.b.name}|{role_b}")
            if one is None or other is None or one.size != other.size or not norm(one):
                continue
            factor = float(one.ravel() @ other.ravel()) / norm(one) ** 2
            if distance(factor * one, other) < FACTOR_BOUND:
                factors.append(factor)
            elif distance(one, other, summands(pair.b.name, role_b, b)) > FACTOR_BOUND:
                return None  # and not a gradient that is zero mathematically
    if not factors or max(factors) - min(factors) > FACTOR_BOUND * abs(factors[0]):
        return None
    return factors[0]


def summands(layer: str, role: str, recording: Recording) -> float:
    """Return the size of what a gradient is the sum of."""
    outer = float(recording.get(f"outer|{layer}", np.zeros(())))
    if role == "kernel" and f"input|{layer}" in recording:
        value = recording[f"input|{layer}"]
        return outer * norm(value) if np.issubdtype(value.dtype, np.floating) else outer
    output = recording.get(f"output|{layer}", np.zeros(1))
    channels = output.shape[1] if output.ndim > 1 else 1
    return float(outer * (output.size / channels) ** 0.5)


def differences(
    values: Values, noise: Sequence[Values], errors: Sequence[Values] = (), dtype: str = "float64"
) -> list[Difference]:
    """Return distances with their bounds, which follow from the noise, in float32 also the error.

    Parameters
    ----------
    errors
        In float32: distances of each side to itself in float64.
    """
    found = []
    for key, value in values.items():
        noises = [min(_noise(key, each), MAX_BOUND) for each in noise]
        if dtype == "float32":
            bound = float32_bound(noises, [_noise(key, each) for each in errors])
        else:
            bound = float64_bound(noises)
        quantity, _, rest = key.partition("|")
        layer, _, role = rest.rpartition("|") if quantity in _WITH_ROLE else (rest, "", "")
        found.append(Difference(quantity, layer, role, value, bound))
    return found


def first_of_each(found: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return the first difference of each tensor, in the order of these."""
    by_key: dict[str, Difference] = {}
    for each in found:
        by_key.setdefault(each.key, each)
    return tuple(by_key.values())


def mute_reason(found: Sequence[Difference]) -> str:
    """Return why nothing can be said, if rounding or random numbers move a tensor too far."""
    mute = [each for each in found if each.is_mute]
    if not mute:
        return ""
    return (
        f"rounding or random numbers alone move {len(mute)} of {len(found)} tensors, "
        f"the {mute[0].quantity} of {mute[0].layer or 'the model'} first"
    )


def _noise(key: str, values: Values) -> float:
    """Return the noise of a tensor; that of an update is at least that of its gradient.

    The rounding of the weight, which is subtracted from an update, may hide it.
    """
    gradient = key.replace("update|", "gradient|", 1) if key.startswith("update|") else key
    return max(values.get(key, 0.0), values.get(gradient, 0.0))


_WITH_ROLE = ("gradient", "update", "statistics")
