"""What a comparison could have found, and what it would take to settle it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from horizont.stats.equality import MARGIN, log_margin

#: The chance with which a difference is to be found that is there.
POWER = 0.8

#: The chance with which a test finds one that is not.
ALPHA = 0.05

#: With fewer blocks nothing is settled.
FEWEST = 3

#: Beyond so many blocks the approximation has no more to say.
_MOST = 10_000


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
    from statsmodels.stats.power import TTestPower  # type: ignore[import-untyped]

    known = np.asarray(logs, dtype=np.float64)
    if known.size < FEWEST:
        return math.nan
    effect = TTestPower().solve_power(None, nobs=known.size, alpha=ALPHA, power=POWER)
    return math.exp(float(np.squeeze(effect)) * float(np.std(known, ddof=1)))


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
    needed = [_blocks(apart, spread, POWER, "two-sided")]
    within = log_margin(margin) - apart
    if within > 0:
        # Each of the two one-sided tests may fail in half of the cases that are left.
        needed.append(_blocks(within, spread, (1 + POWER) / 2, "larger"))
    return max(1, min(needed) - int(known.size))


def _blocks(effect: float, spread: float, power: float, alternative: str) -> int:
    """Tell how many blocks a t test needs for an effect."""
    from statsmodels.stats.power import TTestPower

    if effect <= 0 or effect / max(spread, 1e-300) < 3.0 / math.sqrt(_MOST):
        return _MOST
    size = effect / max(spread, 1e-12 * effect)
    test = TTestPower()
    if test.power(size, FEWEST, ALPHA, alternative=alternative) >= power:
        return FEWEST
    found = test.solve_power(size, None, ALPHA, power, alternative)
    return math.ceil(float(np.squeeze(found)))
