"""Estimates of the median or mean of a few independent runs, with confidence intervals.

A run is a single observation; its steps are not independent and give no interval. With the three
to ten blocks of a study, two facts limit the confidence level of any interval:

* The interval from the smallest to the largest of n independent values covers the median of
  their distribution with probability ``1 - 2 ** (1 - n)``, whatever the distribution is (each
  value lies below the median with probability 1/2): 75 % for 3, 87.5 % for 4, 93.75 % for 5.
* No bootstrap interval extends beyond the smallest and the largest value.

So a "95 %" bootstrap interval of five runs is at best a 93.75 % interval. An `Estimate` has the
level that its number of runs can attain, and that level is displayed.

The intervals are BCa bootstrap intervals of the median, slightly widened: resamples of n values
vary less than n new values, by sqrt((n - 1) / n) in the case of a mean. In simulation the plain
BCa interval of ten values covers the median in 92.5 to 93.5 % of cases, the widened one in 94 to
95 %, for normal, skewed, heavy-tailed and occasionally disturbed values (``bench/coverage.py``).
That of a mean covers it in 79 to 89 % only.

References
----------
Efron, "Better bootstrap confidence intervals", JASA 82, 1987 (BCa). Hesterberg, "What teachers
should know about the bootstrap", The American Statistician 69, 2015, section 4 (too narrow).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

#: The confidence level of all intervals, unless there are too few values for it.
LEVEL = 0.95
RESAMPLES = 4999
_BOOTSTRAP_SEED = 20210
#: Resamples in memory at a time.
_BOOTSTRAP_BATCH = 500


@dataclass(frozen=True)
class Estimate:
    """An estimate with its confidence interval, in the unit of the observations.

    Attributes
    ----------
    value
        NaN without observations.
    low, high
        The limits of the interval; NaN with fewer than two observations.
    level
        The highest probability with which such intervals can cover the true value: `LEVEL` or, if
        it is lower, what the number of observations allows.
    n
        The number of observations.
    """

    value: float
    low: float
    high: float
    level: float
    n: int

    def columns(self, *names: str) -> dict[str, float]:
        """Return value, low, high and level under these names, as many as there are."""
        return dict(zip(names, (self.value, self.low, self.high, self.level), strict=False))


#: Of no observations.
NO_ESTIMATE = Estimate(math.nan, math.nan, math.nan, 0.0, 0)


def attainable_level(n: int) -> float:
    """Return the highest confidence level of an interval for a median of n observations.

    References
    ----------
    David and Nagaraja, "Order Statistics", 3rd edition, 2003, section 7.1.
    """
    return min(LEVEL, 1.0 - 2.0 ** (1 - n)) if n > 0 else 0.0


def median(values: ArrayLike) -> float:
    """Return the median without NaN; NaN if there are no values."""
    values = _without_nan(values)
    return float(np.median(values)) if values.size else math.nan


def median_interval(values: ArrayLike) -> Estimate:
    """Estimate the median of a distribution from independent values, without NaN.

    The interval is the widened BCa bootstrap interval; for equal values it is that value. The
    resampling is seeded, so equal values give equal intervals.
    """
    values = _without_nan(values)
    n = int(values.size)
    low, high = median_intervals(values) if n > 1 else (math.nan, math.nan)
    return Estimate(median(values), float(low), float(high), attainable_level(n), n)


def median_intervals(
    values: NDArray[np.float64], resamples: int = RESAMPLES
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the intervals of `median_interval` for many sets of values at once.

    From values of shape (..., n), with n of at least two and without NaN, the lower and the upper
    limits, each of shape (...).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BCa is not defined for equal values
        interval = scipy.stats.bootstrap(
            (values,),
            np.median,
            axis=-1,
            confidence_level=_widened_level(values.shape[-1]),
            n_resamples=resamples,
            batch=_BOOTSTRAP_BATCH,
            method="BCa",
            rng=np.random.default_rng(_BOOTSTRAP_SEED),
        ).confidence_interval
    medians = np.median(values, axis=-1)
    low, high = np.asarray(interval.low), np.asarray(interval.high)
    return np.where(np.isnan(low), medians, low), np.where(np.isnan(high), medians, high)


def mean_interval(values: ArrayLike) -> Estimate:
    """Estimate the mean of a distribution from independent values, by Student's t, without NaN.

    For parts of a sum: their means add up to the mean of the sum, medians do not. The values are
    assumed to be roughly normal; in return the level is reached with two of them.
    """
    values = _without_nan(values)
    n = int(values.size)
    if n < 2:
        return Estimate(float(values[0]) if n else math.nan, math.nan, math.nan, 0.0, n)
    value = float(np.mean(values))
    half = float(scipy.stats.sem(values) * scipy.stats.t.isf((1 - LEVEL) / 2, n - 1))
    return Estimate(value, value - half, value + half, LEVEL, n)


def _widened_level(n: int) -> float:
    """Return the level at which the bootstrap interval of n values has the coverage `LEVEL`."""
    quantile = scipy.stats.norm.isf((1.0 - LEVEL) / 2.0)
    return float(1.0 - 2.0 * scipy.stats.norm.sf(quantile * math.sqrt(n / (n - 1))))


def _without_nan(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    without_nan: NDArray[np.float64] = array[~np.isnan(array)]
    return without_nan


def interval_at_level(values: ArrayLike) -> Estimate:
    """Estimate the centre of a distribution at `LEVEL`, whatever the number of values, without NaN.

    By `median_interval` if so many values let it reach the level (six), else by `mean_interval`.
    """
    values = _without_nan(values)
    reaches_level = attainable_level(values.size) >= LEVEL
    return median_interval(values) if reaches_level else mean_interval(values)


def proportion_bounds(successes: int, n: int) -> Estimate:
    """Estimate a proportion, with the one-sided exact bounds of Clopper and Pearson (1934).

    Each of `low` and `high` alone covers the proportion at `LEVEL`: a claim has one direction.
    """
    tests = [scipy.stats.binomtest(successes, n, alternative=side) for side in ("greater", "less")]
    low, high = (test.proportion_ci(LEVEL, method="exact") for test in tests)
    return Estimate(successes / n, float(low.low), float(high.high), LEVEL, n)


def paired_ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    interval: Callable[[ArrayLike], Estimate] = median_interval,
) -> Estimate:
    """Estimate the ratio of two quantities that are paired by block.

    What slows down a complete block (a hot machine, other programs) slows down both members of a
    pair and does not change their ratio. The estimate is the median over the blocks of the log
    ratio inside each block (or what `interval` estimates of them), so that a factor of two up and
    a factor of two down have the same weight, and swapping the quantities gives exactly the
    reciprocal. Arguments as of `log_ratios`.
    """
    logs = interval(log_ratios(numerator, denominator))
    return Estimate(
        math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), logs.level, logs.n
    )


def log_ratios(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """Return the natural logarithm of the ratio inside each block that has both members.

    Both are positive numbers in the same unit and order of blocks; NaN leaves a block out. Raises
    `ValueError` if the two differ in length.
    """
    numerator = np.asarray(numerator, dtype=np.float64)
    denominator = np.asarray(denominator, dtype=np.float64)
    if numerator.shape != denominator.shape:
        raise ValueError(f"{numerator.shape} and {denominator.shape} cannot be paired")
    is_complete = (numerator > 0) & (denominator > 0)  # false for NaN
    logs: NDArray[np.float64] = np.log(numerator[is_complete] / denominator[is_complete])
    return logs
