"""Inputs of layers that differ by a multiple of one output and by constants, such as positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from horizont.modeldiff.glue import Glue, glue_candidate
from horizont.modeldiff.identification import IDENTITY_BOUND, largest
from horizont.modeldiff.recording import Array
from horizont.modeldiff.repairs import Candidate

#: Constants of more elements are not sent to a side.
_MOST_CONSTANTS = 1_000_000

#: How far the angles of positions may be from multiples of their frequencies.
_ANGLE_BOUND = 1e-5


@dataclass(frozen=True)
class _Line:
    """A multiple of an output, and a summand that is the same for all examples."""

    factor: float
    constant: Array

    @property
    def has_constant(self) -> bool:
        return bool(np.any(self.constant))


def linear_difference(glue: Glue) -> Candidate | None:
    """Find by what multiple of an output, and by which constants, both inputs differ.

    Examples show that: what is the same for all of them is constant. So this needs two examples.
    """
    if not _is_suitable(glue):
        return None
    bound = IDENTITY_BOUND * largest(glue.b)
    for name, source in glue.outputs.items():
        if source.shape != glue.b.shape:
            continue
        change = _line(source, glue.b - glue.a, bound)
        if change is None or not (change.factor or change.has_constant):
            continue
        value: dict[str, Any] = {"plus": name, "factor": change.factor}
        if change.has_constant:
            value["constant"] = change.constant.tolist()
        # Besides, there may be a connection around layers before.
        around = [each for each in glue.sources_a.values() if each.shape == source.shape]
        rests = [glue.a, *(glue.a - each for each in around if each is not source)]
        lines = (_line(source, rest, bound) for rest in rests)
        own = next((each for each in lines if each is not None), None)
        return glue_candidate(glue, *_described(name, own, change), value)
    return None


def _is_suitable(glue: Glue) -> bool:
    a, b = glue.a, glue.b
    is_known = a.shape == b.shape and a.ndim in (2, 3) and len(b) > 1
    return is_known and np.issubdtype(a.dtype, np.floating) and b[0].size <= _MOST_CONSTANTS


def _line(x: Array, y: Array, bound: float) -> _Line | None:
    """Return factor and constant with which x gives y for all examples; None if there are none."""
    moved, other = x - x.mean(0), y - y.mean(0)
    square = float(np.sum(moved * moved))
    if not square > 0.0:
        return None
    factor = float(np.sum(moved * other)) / square
    if np.max(np.abs(other - factor * moved)) > bound:
        return None
    if abs(factor) * largest(x) <= bound:
        factor = 0.0
    constant = (y - factor * x).mean(0)
    return _Line(factor, constant if largest(constant) > bound else np.zeros_like(constant))


def _described(name: str, own: _Line | None, change: _Line) -> tuple[str, str, str]:
    """Return what differs, with the values of both sides."""
    if own is None:
        added = f"{change.factor:.6g} times the output of {name}" if change.factor else ""
        constant = "constants" if change.has_constant else ""
        return "summand", "none", " and ".join(filter(None, (added, constant)))
    rows: list[list[str]] = []
    if change.factor:
        both = own.factor, own.factor + change.factor
        rows.append([f"factor of the output of {name}", *(f"{each:.6g}" for each in both)])
    if change.has_constant:
        both_constants = own.constant, own.constant + change.constant
        rows.append(["constant summand", *map(_shown, both_constants)])
    whats, ones, others = zip(*rows, strict=True)
    return " and ".join(whats), ", ".join(ones), ", ".join(others)


def _shown(constant: Array) -> str:
    """Return what constants are: sines of positions, others, or none."""
    if largest(constant) <= IDENTITY_BOUND:
        return "none"
    return _sinusoidal(constant) or f"numbers up to {largest(constant):.3g}"


def _sinusoidal(constant: Array) -> str:
    """Name a table of sines and cosines of positions, of shape (positions, features)."""
    if constant.ndim != 2 or len(constant) < 3 or constant.shape[1] % 2 or constant.shape[1] < 4:
        return ""
    half = constant.shape[1] // 2
    orders = {
        "sines and cosines alternate": (constant[:, 0::2], constant[:, 1::2]),
        "sines before cosines": (constant[:, :half], constant[:, half:]),
        "cosines and sines alternate": (constant[:, 1::2], constant[:, 0::2]),
        "cosines before sines": (constant[:, half:], constant[:, :half]),
    }
    for order, (sines, cosines) in orders.items():
        found = _frequencies(sines, cosines)
        if found is not None:
            return f"{order}, {found}"
    return ""


def _frequencies(sines: Array, cosines: Array) -> str | None:
    """Return base, first position and factor of sines of positions; None if they are none."""
    radius = np.hypot(sines, cosines)
    if np.ptp(radius) > _ANGLE_BOUND * radius.max():
        return None
    angles = np.unwrap(np.arctan2(sines, cosines), axis=0)
    steps = angles[1] - angles[0]
    if np.any(steps <= 0) or np.max(np.abs(np.diff(angles, axis=0) - steps)) > _ANGLE_BOUND:
        return None
    logs = np.log(steps)
    slope = logs[1] - logs[0]
    if np.max(np.abs(np.diff(logs) - slope)) > _ANGLE_BOUND or slope == 0:
        return None
    start = round(float(angles[0, 0] / steps[0]), 4) + 0.0  # not -0
    base, size = np.exp(-slope * len(steps)), radius.mean()
    times = "" if abs(size - 1.0) < _ANGLE_BOUND else f", times {size:.4g}"
    return f"base {base:.5g}, from position {start:g}{times}"
