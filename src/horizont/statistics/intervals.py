"""The median of a few independent runs, and an interval that says what it is worth.

A run is one observation; its steps are not independent and give no interval. With the three to
ten blocks that a study can afford, two facts bound what any interval can promise:

* The interval from the smallest to the largest of n independent values covers the median of
  their distribution with probability ``1 - 2 ** (1 - n)``, whatever the distribution is (each
  value lies below the median with probability 1/2): 75 % for 3, 87.5 % for 4, 93.75 % for 5.
* No bootstrap interval reaches beyond the smallest and the largest value.

So a "95 %" bootstrap interval of five runs is at best a 93.75 % interval. An `Estimate` carries
the level that its number of runs can reach, and who prints it prints that level.

The intervals are BCa bootstrap intervals of the median, taken a little wider than their level:
draws from n values spread less than n new values would, by sqrt((n - 1) / n) in the case of a
mean. In simulation the plain BCa interval of ten values holds the median in 92.5 to 93.5 % of
cases, the widened one in 94 to 95 %, whether the values are normal, skewed, heavy-tailed or
disturbed now and then (``bench/coverage.py``). That of a mean holds it in 79 to 89 % only.

References
----------
Efron, "Better bootstrap confidence intervals", JASA 82, 1987 (BCa). Hesterberg, "What teachers
should know about the bootstrap", The American Statistician 69, 2015, section 4 (too narrow).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
RESAMPLES = 4999
_BOOTSTRAP_SEED = 20210
#: Draws that are held in memory at a time.
_BOOTSTRAP_BATCH = 500


@dataclass(frozen=True)
class Estimate:
    """A value with the interval in which it may lie, all in the unit of the observations.

    Attributes
    ----------
    value
        The estimate; NaN if there was nothing to estimate from.
    low, high
        The ends of the interval; NaN with fewer than two observations.
    level
        The probability with which such intervals can at best hold the true value: the level
        asked for or, if it is less, what the number of observations allows.
    n
        How many observations there were.
    """

    value: float
    low: float
    high: float
    level: float
    n: int


def attainable_level(n: int, level: float = LEVEL) -> float:
    """Bound the confidence level of an interval for a median of n observations.

    References
    ----------
    David and Nagaraja, "Order Statistics", 3rd edition, 2003, section 7.1.
    """
    return min(level, 1.0 - 2.0 ** (1 - n)) if n > 0 else 0.0


def median(values: ArrayLike) -> float:
    """Return the median of the values that are known; NaN if there is none."""
    known = _without_nan(values)
    return float(np.median(known)) if known.size else float("nan")


def median_interval(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the median of what the values were drawn from.

    The interval is the widened BCa bootstrap of the median; of equal values it is that value.
    The draws are seeded, so the same values give the same interval.

    Parameters
    ----------
    values
        One number for each independent run; NaN where a run gave none.
    level
        The confidence level to aim at.
    """
    known = _without_nan(values)
    n = int(known.size)
    if n < 2:
        nan = float("nan")
        return Estimate(median(known), nan, nan, attainable_level(n, level), n)
    low, high = median_intervals(known, level)
    return Estimate(median(known), float(low), float(high), attainable_level(n, level), n)


def median_intervals(
    values: NDArray[np.float64], level: float = LEVEL, resamples: int = RESAMPLES
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find the intervals of `median_interval` for many sets of values at once.

    Parameters
    ----------
    values
        At least two along the last axis, none of them NaN; shape (..., n).

    Returns
    -------
    tuple of arrays
        The low and the high ends, of shape (...).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of equal values, for which BCa is not defined
        found = scipy.stats.bootstrap(
            (values,),
            np.median,
            axis=-1,
            confidence_level=_widened_level(level, values.shape[-1]),
            n_resamples=resamples,
            batch=_BOOTSTRAP_BATCH,
            method="BCa",
            rng=np.random.default_rng(_BOOTSTRAP_SEED),
        ).confidence_interval
    middle = np.median(values, axis=-1)
    low, high = np.asarray(found.low), np.asarray(found.high)
    return np.where(np.isnan(low), middle, low), np.where(np.isnan(high), middle, high)


def mean_interval(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the mean of what the values were drawn from, by Student's t.

    For parts of a whole: means add up to the mean of the whole, and medians do not. It assumes
    that the values are roughly normal; in return it reaches its level with two of them.

    Parameters
    ----------
    values
        One number for each independent run; NaN where a run gave none.
    """
    known = _without_nan(values)
    n = int(known.size)
    if n < 2:
        nan = float("nan")
        return Estimate(float(known[0]) if n else nan, nan, nan, 0.0, n)
    value = float(np.mean(known))
    half = float(np.std(known, ddof=1)) / math.sqrt(n) * scipy.stats.t.isf((1 - level) / 2, n - 1)
    return Estimate(value, value - half, value + half, level, n)


def _widened_level(level: float, n: int) -> float:
    """Tell the level at which a bootstrap interval of n values is as wide as it should be."""
    quantile = scipy.stats.norm.isf((1.0 - level) / 2.0)
    return float(1.0 - 2.0 * scipy.stats.norm.sf(quantile * math.sqrt(n / (n - 1))))


def _without_nan(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    known: NDArray[np.float64] = array[~np.isnan(array)]
    return known


def paired_ratio(numerator: ArrayLike, denominator: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate by which factor one quantity exceeds another, pairing them by block.

    What slows a whole block (a warm machine, a busy neighbour) slows both members of a pair and
    leaves their ratio alone. The ratio is taken inside each block and the median of the
    logarithms over the blocks, so that a factor of two up and a factor of two down weigh the
    same and swapping the two gives exactly the reciprocal.

    Parameters
    ----------
    numerator, denominator
        Positive numbers in the same unit, in the same order of blocks; NaN where a run of the
        block gave none, which leaves the block out.

    Raises
    ------
    ValueError
        If the two differ in length.
    """
    logs = median_interval(log_ratios(numerator, denominator), level)
    return Estimate(
        math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), logs.level, logs.n
    )


def log_ratios(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """Take the natural logarithm of the ratio inside each block that has both members.

    Raises
    ------
    ValueError
        If the two differ in length.
    """
    above = np.asarray(numerator, dtype=np.float64)
    below = np.asarray(denominator, dtype=np.float64)
    if above.shape != below.shape:
        raise ValueError(f"{above.shape} and {below.shape} cannot be paired")
    usable = (above > 0) & (below > 0)  # false for NaN
    found: NDArray[np.float64] = np.log(above[usable] / below[usable])
    return found
