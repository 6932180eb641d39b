"""How the running statistics of norms are updated, however an author has written it.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .tf_entries import STATISTICS, Entry
from .tf_graph import Graph, Interpreter
from .tf_run import Run

#: Running statistics that take less of a batch are not updated.
_LEAST_MOMENTUM = 1e-5

#: Variances of a batch and of twice that batch differ by rounding, if they differ by less.
_LEAST_CORRECTION = 1e-5


def add_statistics(
    entries: list[Entry],
    graphs: tuple[Graph, Graph],
    batch: Any,
    leaves: list[Any],
    *,
    interpreter: Callable[[list[Any]], Interpreter],
    exact: Callable[[float], float],
) -> None:
    """Add the momentum and the correction of the variance to the settings of norms.

    Steps of training show them: a mean of ones instead of zeros leaves all but the momentum; a
    batch that is there twice has the same variance, unless it is that of a sample.

    Parameters
    ----------
    graphs
        Of training, with the batch and with twice the batch.
    leaves
        The values of the variables.
    """
    norms = [entry for entry in entries if set(STATISTICS) <= entry.weights.keys()]
    numbers = [entry.weights[role].number for entry in norms for role in STATISTICS]

    def after(graph: Graph, batch: Any, start: float) -> list[Any]:
        own = list(leaves)
        for number in numbers:
            own[number] = tf.fill(own[number].shape, tf.cast(start, own[number].dtype))
        run = Run(graph, [], interpreter(own), {}, [])
        run.evaluate(batch)
        return run.interpreter.leaves

    if not norms:
        return
    zeros, ones = (after(graphs[0], batch, start) for start in (0.0, 1.0))
    twice = after(graphs[1], tf.concat([batch, batch], 0), 0.0)
    for entry in norms:
        mean, variance = (entry.weights[role].number for role in STATISTICS)
        momentum = float(1.0 - np.mean(ones[mean] - zeros[mean]))
        if momentum > _LEAST_MOMENTUM:
            entry.settings["momentum"] = exact(momentum)
            ratio = float(np.mean(twice[variance]) / np.mean(zeros[variance]))
            entry.settings["variance correction"] = int(abs(ratio - 1.0) > _LEAST_CORRECTION)
