"""Running statistics of norms, for the recorders that find layers in operations.

An entry is a layer: it has a name, settings, and weights by role with the number of their variable.
It imports NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

#: The roles of running statistics.
_ROLES = ("mean", "variance")

#: Running statistics that take less of a batch are not updated.
_LEAST_MOMENTUM = 1e-5

#: Variances of a batch and of twice that batch differ by rounding, if they differ by less.
_LEAST_CORRECTION = 1e-5

Leaves = Mapping[int, Any]


def add_statistics(
    entries: Iterable[Any],
    after: Callable[[set[int], float, bool], Leaves],
    exact: Callable[[float], float],
) -> None:
    """Add the momentum and the correction of the variance to the settings of norms.

    Steps of training show them: a mean of ones instead of zeros leaves all but the momentum; a
    batch that is there twice has the same variance, unless it is that of a sample.

    Parameters
    ----------
    after
        Executes training with some variables filled with a number, and with twice the batch if
        asked for; it returns variables that were updated by their numbers.
    """
    norms = [entry for entry in entries if {*_ROLES} <= entry.weights.keys()]
    numbers = {entry.weights[role].number for entry in norms for role in _ROLES}
    if not norms:
        return
    zeros, ones = (after(numbers, start, False) for start in (0.0, 1.0))
    twice = after(numbers, 0.0, True)
    for entry in norms:
        mean, variance = (entry.weights[role].number for role in _ROLES)
        if mean not in zeros or variance not in zeros:
            continue
        momentum = float(1.0 - np.mean(ones[mean] - zeros[mean]))
        if momentum > _LEAST_MOMENTUM:
            entry.settings["momentum"] = exact(momentum)
            ratio = float(np.mean(twice[variance]) / np.mean(zeros[variance]))
            entry.settings["variance correction"] = int(abs(ratio - 1.0) > _LEAST_CORRECTION)


def without_update(entries: Iterable[Any], repairs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the names of norms that repairs set to the statistics of the batch in evaluation.

    They update nothing, so that no momentum can do it.
    """
    asked = {each["layer"] for each in repairs if each["key"] == "momentum"}
    return {each.name for each in entries if each.name in asked and "momentum" not in each.settings}


def change_momentum(
    entries: Iterable[Any],
    repairs: Iterable[Mapping[str, Any]],
    before: list[Any],
    after: list[Any],
) -> None:
    """Update running statistics by another part of the batch, in the values after a step."""
    by_name = {entry.name: entry for entry in entries}
    for repair in repairs:
        entry = by_name.get(repair["layer"])
        if repair["key"] != "momentum" or entry is None or "momentum" not in entry.settings:
            continue
        factor = repair["value"] / entry.settings["momentum"]
        for role in _ROLES:
            number = entry.weights[role].number
            after[number] = before[number] + factor * (after[number] - before[number])
