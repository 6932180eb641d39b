"""Whether two systems differ, and whether they are equal for all purposes: paired tests.

Not to find a difference shows no equality: three blocks find few differences. So each is a test
of its own, by statsmodels, on the logarithms of the ratios inside the blocks. Both are t tests:
with three blocks no interval without an assumption can promise more than 75 %, and these assume
that the logarithms are roughly symmetric.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Two rates that differ by less than this, as a share, are equal for all purposes.
MARGIN = 0.10


def difference_p(logs: ArrayLike) -> float:
    """Test whether two systems are equally fast, by the two-sided paired t test.

    Parameters
    ----------
    logs
        As of `log_ratios`: a number for each block.

    Returns
    -------
    float
        The p value; NaN with fewer than two blocks. Of blocks that agree to the last digit it
        is 0, or 1 if there is no difference in any.
    """
    from statsmodels.stats.weightstats import DescrStatsW

    known = np.asarray(logs, dtype=np.float64)
    if known.size < 2:
        return math.nan
    if not np.ptp(known):
        return float(known[0] == 0.0)
    return float(DescrStatsW(known).ttest_mean(0.0)[1])


def equivalence_p(logs: ArrayLike, margin: float = MARGIN) -> float:
    """Test whether two systems differ by more than a margin, by two one-sided paired t tests.

    Parameters
    ----------
    margin
        A share: 0.1 takes ratios between 1 / 1.1 and 1.1 for equal.

    Returns
    -------
    float
        The p value: small if they are equal within the margin.

    References
    ----------
    Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
    Journal of Pharmacokinetics and Biopharmaceutics 15, 1987.
    """
    from statsmodels.stats.weightstats import ttost_paired

    known = np.asarray(logs, dtype=np.float64)
    bound = log_margin(margin)
    if known.size < 2:
        return math.nan
    if not np.ptp(known):
        return float(abs(known[0]) >= bound)
    return float(ttost_paired(known, _nothing(known), -bound, bound)[0])


def log_margin(margin: float) -> float:
    """Tell how far a logarithm may be from nothing within a margin."""
    return math.log1p(margin)


def _nothing(like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the other member of a pair whose difference is taken already."""
    return np.zeros_like(like)
