"""Whether repeated runs look like draws from one distribution: their spread and their drift."""

from __future__ import annotations

import math

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike

#: Rates of the same work that spread by more than this, as a share, deserve a warning.
WIDE = 0.05

#: So many runs are needed for a drift to be told from chance: five in order come by chance once
#: in sixty times.
TELLING = 5


def spread(rates: ArrayLike) -> float:
    """Tell by which share repeated rates spread: the standard deviation of their logarithms.

    Returns
    -------
    float
        NaN with fewer than two rates; for small spreads that of the rates over their mean.
    """
    known = np.asarray(rates, dtype=np.float64)
    known = known[known > 0]  # false for NaN
    return float(np.std(np.log(known), ddof=1)) if known.size > 1 else math.nan


def drift(order: ArrayLike, rates: ArrayLike) -> tuple[float, float]:
    """Tell whether rates went up or down in the order in which they were measured.

    Parameters
    ----------
    order
        When each was measured, in any unit; NaN if that is not known.

    Returns
    -------
    tuple of float
        Kendall's rank correlation, from -1 to 1, and its p value, exact for few runs without
        ties; both NaN with fewer than five runs.
    """
    when, known = np.asarray(order, dtype=np.float64), np.asarray(rates, dtype=np.float64)
    usable = ~(np.isnan(when) | np.isnan(known))
    if np.count_nonzero(usable) < TELLING or not np.ptp(known[usable]):
        return math.nan, math.nan
    found = scipy.stats.kendalltau(when[usable], known[usable])
    return float(found.statistic), float(found.pvalue)
