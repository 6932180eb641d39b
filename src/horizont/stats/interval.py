"""The median of a few independent runs, and an interval that says what it is worth.

A run is one observation; its steps are not independent and give no interval. With the three to
ten blocks that a study can afford, two facts bound what any interval can promise:

* The interval from the smallest to the largest of n independent values covers the median of
  their distribution with probability ``1 - 2 ** (1 - n)``, whatever the distribution is (each
  value lies below the median with probability 1/2): 75 % for 3, 87.5 % for 4, 93.75 % for 5.
* No percentile bootstrap interval reaches beyond the smallest and the largest value.

So a "95 %" bootstrap interval of five runs is at best a 93.75 % interval. An `Estimate` carries
the level that its number of runs can reach, and who prints it prints that level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats as scipy_stats

LEVEL = 0.95
RESAMPLES = 4999
_SEED = 20210


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
    known = _known(values)
    return float(np.median(known)) if known.size else float("nan")


def median_interval(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate the median of what the values were drawn from.

    The interval is the percentile bootstrap of the median: the values are drawn again, with
    replacement, and the median of each draw noted. The draws are seeded, so the same values
    give the same interval.

    Parameters
    ----------
    values
        One number for each independent run; NaN where a run gave none.
    level
        The confidence level to aim at.
    """
    known = _known(values)
    n = int(known.size)
    if n < 2:
        nan = float("nan")
        return Estimate(median(known), nan, nan, attainable_level(n, level), n)
    found = scipy_stats.bootstrap(
        (known,),
        np.median,
        confidence_level=level,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    low, high = float(found.low), float(found.high)
    return Estimate(median(known), low, high, attainable_level(n, level), n)


def _known(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    known: NDArray[np.float64] = array[~np.isnan(array)]
    return known
