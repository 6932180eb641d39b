"""Chapter 8: workers of unequal speed, waiting for each other or not."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Update:
    """A step of a worker and the update that came of it.

    Attributes
    ----------
    staleness
        Updates that the weights had seen between the start of the step and its end.
    """

    worker: int
    start_s: float
    end_s: float
    staleness: int


def slowest_expected(workers: Array, fixed_s: float, spread_s: float) -> Array:
    """Tell how long the slowest of some equal workers takes on average.

    Each takes a fixed time and a random one, exponential with mean `spread_s`; the largest of n
    such times is 1 + 1/2 + ... + 1/n of that mean (Renyi, "On the theory of order statistics",
    1953).
    """
    counts = np.asarray(workers)
    harmonic = np.cumsum(1.0 / np.arange(1, counts.max() + 1))
    return np.asarray(fixed_s + spread_s * harmonic[counts - 1])


def slowest_drawn(
    workers: Array, fixed_s: float, spread_s: float, draws: int = 40_000, seed: int = 6
) -> Array:
    """Find the same by drawing."""
    times = np.random.default_rng(seed).exponential(spread_s, (draws, int(np.max(workers))))
    slowest = np.maximum.accumulate(times, axis=1).mean(axis=0)
    return np.asarray(fixed_s + slowest[np.asarray(workers) - 1])


def steps_per_second(times_s: Array, *, together: bool) -> float:
    """Tell the steps of all workers in a second, from the time that each needs for one.

    Together all wait for the slowest: n / max. Apart each goes on by itself: the sum of 1 / time.
    """
    times = np.asarray(times_s)
    return float(len(times) / times.max() if together else (1 / times).sum())


def apart(times_s: Array, until_s: float, spread: float = 0.0, seed: int = 7) -> list[Update]:
    """Let workers update shared weights without waiting for each other.

    Parameters
    ----------
    times_s
        Of a step of each worker.
    spread
        Of the logarithm of each step's time.
    """
    random = np.random.default_rng(seed)
    due = [(float(time * np.exp(random.normal(0, spread))), rank, 0.0, 0)
           for rank, time in enumerate(times_s)]  # fmt: skip
    heapq.heapify(due)
    done: list[Update] = []
    while due[0][0] <= until_s:
        end_s, rank, start_s, version = heapq.heappop(due)
        done.append(Update(rank, start_s, end_s, len(done) - version))
        time_s = float(times_s[rank] * np.exp(random.normal(0, spread)))
        heapq.heappush(due, (end_s + time_s, rank, end_s, len(done)))
    return done


def together(times_s: Array, until_s: float) -> list[Update]:
    """Let workers make steps at the same time; each update waits for the last of them."""
    slowest_s = float(np.max(times_s))
    return [
        Update(rank, step * slowest_s, step * slowest_s + float(time), 0)
        for step in range(int(until_s / slowest_s + 1e-9))
        for rank, time in enumerate(times_s)
    ]


def expected_staleness(times_s: Array) -> Array:
    """Tell the mean staleness of each worker's updates: what the others do in one of its steps.

    Weighted by how many updates each worker makes, the mean is the number of the others, whatever
    their speeds: each update falls into exactly one step of every other worker.
    """
    times = np.asarray(times_s, dtype=np.float64)
    return np.asarray(times * (1 / times).sum() - 1)
