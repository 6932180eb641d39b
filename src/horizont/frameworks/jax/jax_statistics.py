"""How the running statistics of norms are updated, however an author has written it.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from .jax_operations import STATISTICS, Entry

#: Running statistics that take less of a batch are not updated.
_LEAST_MOMENTUM = 1e-5

#: Variances of a batch and of twice that batch differ by rounding, if they differ by less.
_LEAST_CORRECTION = 1e-5


def add_statistics(
    entries: list[Entry],
    leaves: list[Any],
    updated: Callable[[list[Any], bool], dict[int, Any]],
    exact: Callable[[float], float],
) -> None:
    """Add the momentum and the correction of the variance to the settings of norms.

    Steps of training show them: a mean of ones instead of zeros leaves all but the momentum; a
    batch that is there twice has the same variance, unless it is that of a sample.

    Parameters
    ----------
    updated
        Executes training with values of the variables, with twice the batch if asked for, and
        returns those that it updates by their numbers.
    """
    norms = [entry for entry in entries if set(STATISTICS) <= entry.weights.keys()]
    numbers = {entry.weights[role].number for entry in norms for role in STATISTICS}

    def after(start: float, is_twice: bool) -> dict[int, Any]:
        own = [
            jnp.full_like(each, start) if number in numbers else each
            for number, each in enumerate(leaves)
        ]
        return updated(own, is_twice)

    if not norms:
        return
    zeros, ones, twice = after(0.0, False), after(1.0, False), after(0.0, True)
    for entry in norms:
        mean, variance = (entry.weights[role].number for role in STATISTICS)
        if mean not in zeros or variance not in zeros:
            continue
        momentum = float(1.0 - (ones[mean] - zeros[mean]).mean())
        if momentum > _LEAST_MOMENTUM:
            entry.settings["momentum"] = exact(momentum)
            ratio = float((twice[variance] / zeros[variance]).mean())
            entry.settings["variance correction"] = int(abs(ratio - 1.0) > _LEAST_CORRECTION)
