"""Noise of repeated runs, and the differences that it hides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from horizont.statistics.comparison import ALPHA, MIN_BLOCKS


@dataclass(frozen=True)
class Noise:
    """The spread of repeated times, as standard deviations of their logarithms.

    Attributes
    ----------
    between
        Of processes: what a longer process would not average out.
    within
        Of the repetitions in a process.
    """

    between: float
    within: float

    def run_spread(self, repetitions: float) -> float:
        """Compute the spread of runs of so many repetitions, as if these were independent."""
        return math.hypot(self.between, self.within / math.sqrt(repetitions))


def noise_of(times_s: Sequence[ArrayLike]) -> Noise:
    """Split the variance of repeated times into that between and that within processes.

    The estimators of the analysis of variance with one random factor: the variance of the means of
    processes contains that of their repetitions, divided by their number, which is subtracted; at
    least 0. A number from few processes is rough. Of each of at least two processes, the times of
    at least two repetitions.

    References
    ----------
    Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013.
    Searle, Casella and McCulloch, "Variance Components", 1992, chapter 3.
    """
    logs = [np.log(np.asarray(times, dtype=np.float64)) for times in times_s]
    counts = np.array([one.size for one in logs])
    squares = sum(float(np.sum((one - one.mean()) ** 2)) for one in logs)
    within = squares / float(np.sum(counts - 1))
    means = np.var([one.mean() for one in logs], ddof=1)
    between = max(0.0, float(means - within * np.mean(1 / counts)))
    return Noise(math.sqrt(between), math.sqrt(within))


def smallest_difference(spread: float, blocks: int) -> float:
    """Compute the relative difference of two systems that exceeds the noise of so many blocks.

    As a fraction: 0.02 for rates with a ratio of 1.02. NaN with fewer blocks than a verdict needs.
    Each block has one run of each system, so that the logarithm of its ratio has the standard
    deviation ``sqrt(2) * spread``, if what disturbs one run is independent of what disturbs the
    next. The half width of the 95 % t interval of the mean of n of them is ``t(0.975, n - 1) *
    sqrt(2 / n) * spread``; smaller observed differences are not significant. The spread is the
    standard deviation of the logarithms of the rates of equal runs.

    References
    ----------
    Student, "The probable error of a mean", Biometrika 6, 1908. Jain, "The Art of Computer Systems
    Performance Analysis", 1991, section 13.4.1 (paired observations).
    """
    if blocks < MIN_BLOCKS:
        return math.nan
    quantile = float(scipy.stats.t.isf(ALPHA / 2, blocks - 1))
    return math.expm1(quantile * math.sqrt(2 / blocks) * spread)
