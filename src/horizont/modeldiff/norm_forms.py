"""Norms that models define themselves: what they subtract and divide by, as their outputs show.

A norm divides by the root of ``slope * v + epsilon``, or by ``slope * root(v) + epsilon``, where v
is the mean square of the features, of which the mean may have been subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from horizont.modeldiff.glue import is_close
from horizont.modeldiff.pairing import Pair
from horizont.modeldiff.recording import Array, Recording, Repair
from horizont.modeldiff.repairs import Candidate

#: The largest relative error of what is identified.
_BOUND = 1e-9

#: Through fewer numbers there may be a line by chance.
_LEAST_POSITIONS = 4

_KEY = "form of a norm"


@dataclass(frozen=True)
class _Form:
    """What a norm does with features; it is the same for all positions."""

    is_centered: bool
    slope: float
    is_outside: bool
    epsilon: float

    def described(self, features: int) -> dict[str, str]:
        """Name the parts, of which two norms may differ in some."""
        squares = self.slope**2 if self.is_outside else self.slope
        variances = {
            "of all features": 1.0,
            "of a sample": features / (features - 1),
            "sum of squares": features,
        }
        close = [name for name, each in variances.items() if abs(squares / each - 1.0) < _BOUND]
        return {
            "mean in a norm": "subtracted" if self.is_centered else "not subtracted",
            "variance of a norm": close[0] if close else f"times {squares:.6g}",
            "place of the epsilon of a norm": "the root" if self.is_outside else "the variance",
            "epsilon of a norm": f"{round(self.epsilon, 13):.3g}",
        }


def norm_candidates(
    pairs: Sequence[Pair], fed: Recording, b: Recording, weights_b: Mapping[str, Array]
) -> list[Candidate]:
    """List pairs of norms, one of them without settings, that do different things."""
    found = []
    for pair in pairs:
        has_settings = "epsilon" in pair.a.settings and "epsilon" in pair.b.settings
        x, y = b.get(f"input|{pair.b.name}"), b.get(f"output|{pair.b.name}")
        own = fed.get(f"output|{pair.a.name}")
        if has_settings or x is None or y is None or own is None or len(pair.shared_roles) > 2:
            continue
        if not x.shape == y.shape == own.shape or x.ndim not in (2, 3) or is_close(own, y):
            continue
        candidate = _candidate(pair, x, own, y, weights_b)
        found += [] if candidate is None else [candidate]
    return found


def _candidate(
    pair: Pair, x: Array, own: Array, y: Array, weights: Mapping[str, Array]
) -> Candidate | None:
    roles = [role_a for role_a, _ in pair.shared_roles]
    tensors = [weights[f"{pair.b.name}|{role}"] for _, role in pair.shared_roles]
    if not roles or any(each.shape != x.shape[-1:] or not each.all() for each in tensors):
        return None
    for scale in range(len(roles)):
        offset = tensors[1 - scale] if len(roles) > 1 else np.zeros(())
        one, other = (_form(x, (each - offset) / tensors[scale]) for each in (own, y))
        if one is None or other is None:
            continue
        texts = [each.described(x.shape[-1]) for each in (one, other)]
        names = [name for name in texts[0] if texts[0][name] != texts[1][name]]
        if not names:
            return None
        value = {
            "centered": other.is_centered,
            "slope": other.slope,
            "outside": other.is_outside,
            "epsilon": other.epsilon,
            "roles": [roles[scale], *roles[:scale], *roles[scale + 1 :]],
        }
        own_text, text = (", ".join(each[name] for name in names) for each in texts)
        repairs = (Repair(pair.a.name, _KEY, value),) if _KEY not in pair.a.fixed else ()
        return Candidate(" and ".join(names), own_text, text, (pair.a.name,), repairs)
    return None


def _form(x: Array, normalized: Array) -> _Form | None:
    """Return what normalizes features, (..., features), so; None if no such norm does."""
    for is_centered in (True, False):
        c = x - x.mean(-1, keepdims=True) if is_centered else x
        products = np.sum(c * normalized, axis=-1)
        if not np.all(products > 0.0):
            continue
        divisors = np.sum(c * c, axis=-1) / products
        if not is_close(normalized * divisors[..., None], c):
            continue
        squares, divisors = np.mean(c * c, axis=-1).ravel(), divisors.ravel()
        for is_outside in (False, True):
            argument = np.sqrt(squares) if is_outside else squares
            line = _line(argument, divisors if is_outside else divisors**2)
            if line is not None:
                return _Form(is_centered, line[0], is_outside, line[1])
    return None


def _line(x: Array, y: Array) -> tuple[float, float] | None:
    """Return slope and constant of a line through all points; None if there is none."""
    if len(x) < _LEAST_POSITIONS or np.ptp(x) < sqrt(_BOUND) * x.max():
        return None
    slope, constant = np.polyfit(x, y, 1)
    if np.max(np.abs(slope * x + constant - y)) > _BOUND * y.max():
        return None
    return float(slope), float(constant)
