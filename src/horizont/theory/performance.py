"""Chapter 10: how good, how undecided, how fast, and what more workers bring."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.questions import Question

Array = NDArray[Any]


def amdahl(workers: Array, serial: float) -> Array:
    """Tell the speedup of a fixed piece of work of which a share cannot be divided.

    Amdahl, "Validity of the single processor approach", 1967.
    """
    return np.asarray(1 / (serial + (1 - serial) / np.asarray(workers)))


def gustafson(workers: Array, serial: float) -> Array:
    """Tell the speedup of work that grows with the workers.

    Gustafson, "Reevaluating Amdahl's law", 1988; `serial` is a share of the parallel time.
    """
    return np.asarray(serial + (1 - serial) * np.asarray(workers))


def step_time(
    workers: Array,
    compute_s: float,
    gradient_bytes: float,
    bytes_per_s: float,
    *,
    strong: bool = False,
) -> Array:
    """Tell how long a synchronous step takes at least, with a ring for the gradients.

    Compute time, divided by the workers if they share one batch, and 2 (n - 1) / n of the
    gradients over each link; nothing overlaps, and nobody waits.
    """
    n = np.asarray(workers, dtype=np.float64)
    return np.asarray(
        (compute_s / n if strong else compute_s) + 2 * (n - 1) / n * gradient_bytes / bytes_per_s
    )


def slowest_of(workers: Array, spread: float, draws: int = 20_000, seed: int = 5) -> Array:
    """Tell how long the slowest of some workers takes, relative to one of them alone.

    Parameters
    ----------
    spread
        Of the logarithm of a worker's time, which is normally distributed.
    """
    times = np.exp(np.random.default_rng(seed).normal(0, spread, (draws, int(np.max(workers)))))
    slowest = np.maximum.accumulate(times, axis=1).mean(axis=0)
    return np.asarray(slowest[np.asarray(workers) - 1] / slowest[0])


def questions() -> list[Question]:
    """Ask for probabilities, cross-entropy and perplexity."""
    random = np.random.default_rng(51)
    given = {"z": 2 * random.normal(size=(8, 5)), "labels": random.integers(0, 5, 8)}
    return [
        Question("softmax", "p = softmax(z)\ny = sum(p * p)", {"z": given["z"]}, ("z",), ("p",)),
        Question("cross-entropy", "l = cross_entropy(z, labels)", given, by=("z",)),
        Question("perplexity", "q = exp(cross_entropy(z, labels))", given, by=("z",)),
    ]
