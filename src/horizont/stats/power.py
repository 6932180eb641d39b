"""What a comparison could have found, and what it would take to settle it."""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike

from horizont.stats.equality import MARGIN, log_margin

#: The chance with which a difference is to be found that is there.
POWER = 0.8

#: The chance with which a test finds one that is not.
ALPHA = 0.05

#: With fewer blocks nothing is settled.
FEWEST = 3

#: Where a search ends: more blocks than anybody makes, and an effect, in standard deviations,
#: that the fewest blocks find.
_MOST = 10_000
_LARGEST = 6.0

#: From this effect times the root of the blocks on the power is above 0.95 with three blocks and
#: 1 with more, and the distribution that it follows from is beyond the numbers of a computer.
_CERTAIN = 10.0


def detectable_ratio(logs: ArrayLike) -> float:
    """Tell the least ratio that so many blocks with such a spread would have found.

    Parameters
    ----------
    logs
        As of `log_ratios`: a number for each block.

    Returns
    -------
    float
        The ratio, above 1, that the two-sided paired t test at 5 % finds with a chance of 80 %;
        NaN with fewer than three blocks. It takes the spread of these blocks for the true one.
    """
    known = np.asarray(logs, dtype=np.float64)
    if known.size < FEWEST:
        return math.nan
    effect = scipy.optimize.brentq(
        lambda size: _power(size, known.size, ALPHA / 2) - POWER, 1e-6, _LARGEST
    )
    return math.exp(float(effect) * float(np.std(known, ddof=1)))


def further_blocks(logs: ArrayLike, margin: float = MARGIN) -> int | None:
    """Tell about how many more blocks would settle an open comparison.

    Either the difference is found or, if it is less than the margin, equality is shown;
    whichever needs less. The difference and the spread of these blocks are taken for the true
    ones, so that a few blocks give a rough number.

    Returns
    -------
    int or None
        At least 1; None if the spread is not known, with fewer than two blocks.
    """
    known = np.asarray(logs, dtype=np.float64)
    if known.size < 2:
        return None
    spread, apart = float(np.std(known, ddof=1)), abs(float(np.median(known)))
    needed = [_blocks(apart, spread, POWER, ALPHA / 2)]
    within = log_margin(margin) - apart
    if within > 0:
        # Each of the two one-sided tests may fail in half of the cases that are left.
        needed.append(_blocks(within, spread, (1 + POWER) / 2, ALPHA))
    return max(1, min(needed) - int(known.size))


def _blocks(effect: float, spread: float, power: float, alpha: float) -> int:
    """Tell how many blocks a t test needs for an effect: the least that have the power."""
    size = min(effect / spread, _LARGEST) if spread > 0 else _LARGEST
    if _power(size, _MOST, alpha) < power:
        return _MOST
    enough = range(FEWEST, _MOST + 1)
    found = bisect_left(enough, power, key=lambda blocks: _power(size, blocks, alpha))
    return enough[found]


def _power(size: float, blocks: int, alpha: float) -> float:
    """Tell the chance of a one-sided t test to find an effect of so many standard deviations.

    That of a two-sided one is the same at half its alpha, but for finding the wrong sign.
    """
    from statsmodels.stats.power import TTestPower

    if size * math.sqrt(blocks) > _CERTAIN:
        return 1.0
    return float(TTestPower().power(size, blocks, alpha, alternative="larger"))
