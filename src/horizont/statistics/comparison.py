"""Whether two systems differ, and whether they are equal for all purposes: paired tests.

Not to find a difference shows no equality: three blocks find few differences. So each is a test
of its own, by statsmodels, on the logarithms of the ratios inside the blocks. Both are t tests:
with three blocks no interval without an assumption can promise more than 75 %, and these assume
that the logarithms are roughly symmetric.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from horizont.statistics.intervals import Estimate, log_ratios, paired_ratio

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
    return float(ttost_paired(known, _zeros_like(known), -bound, bound)[0])


def log_margin(margin: float) -> float:
    """Tell how far a logarithm may be from nothing within a margin."""
    return math.log1p(margin)


def _zeros_like(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the other member of a pair whose difference is taken already."""
    return np.zeros_like(values)


#: The chance with which a difference is to be found that is there.
POWER = 0.8

#: The chance with which a test finds one that is not.
ALPHA = 0.05

#: With fewer blocks nothing is settled.
MIN_BLOCKS = 3

#: Where a search ends: more blocks than anybody makes, and an effect, in standard deviations,
#: that the fewest blocks find.
_MAX_BLOCKS = 10_000
_MAX_EFFECT = 6.0

#: From this effect times the root of the blocks on the power is above 0.95 with three blocks and
#: 1 with more, and the distribution that it follows from is beyond the numbers of a computer.
_SATURATED_EFFECT = 10.0


def minimum_detectable_ratio(logs: ArrayLike) -> float:
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
    if known.size < MIN_BLOCKS:
        return math.nan
    effect = scipy.optimize.brentq(
        lambda size: _one_sided_power(size, known.size, ALPHA / 2) - POWER, 1e-6, _MAX_EFFECT
    )
    return math.exp(float(effect) * float(np.std(known, ddof=1)))


def additional_blocks(logs: ArrayLike, margin: float = MARGIN) -> int | None:
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
    needed = [_required_blocks(apart, spread, POWER, ALPHA / 2)]
    within = log_margin(margin) - apart
    if within > 0:
        # Each of the two one-sided tests may fail in half of the cases that are left.
        needed.append(_required_blocks(within, spread, (1 + POWER) / 2, ALPHA))
    return max(1, min(needed) - int(known.size))


def _required_blocks(effect: float, spread: float, power: float, alpha: float) -> int:
    """Tell how many blocks a t test needs for an effect: the least that have the power."""
    size = min(effect / spread, _MAX_EFFECT) if spread > 0 else _MAX_EFFECT
    if _one_sided_power(size, _MAX_BLOCKS, alpha) < power:
        return _MAX_BLOCKS
    enough = range(MIN_BLOCKS, _MAX_BLOCKS + 1)
    found = bisect_left(enough, power, key=lambda blocks: _one_sided_power(size, blocks, alpha))
    return enough[found]


def _one_sided_power(effect: float, blocks: int, alpha: float) -> float:
    """Tell the chance of a one-sided t test to find an effect of so many standard deviations.

    That of a two-sided one is the same at half its alpha, but for finding the wrong sign.
    """
    from statsmodels.stats.power import TTestPower

    if effect * math.sqrt(blocks) > _SATURATED_EFFECT:
        return 1.0
    return float(TTestPower().power(effect, blocks, alpha, alternative="larger"))


#: Rates of the same work that spread by more than this, as a share, deserve a warning.
SPREAD_WARNING = 0.05

#: So many runs are needed for a drift to be told from chance: five in order come by chance once
#: in sixty times.
MIN_RUNS_FOR_DRIFT = 5


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
    if np.count_nonzero(usable) < MIN_RUNS_FOR_DRIFT or not np.ptp(known[usable]):
        return math.nan, math.nan
    found = scipy.stats.kendalltau(when[usable], known[usable])
    return float(found.statistic), float(found.pvalue)


Outcome = Literal["A faster", "B faster", "equal", "not settled"]


@dataclass(frozen=True)
class Verdict:
    """The answer to which of two systems is faster.

    Attributes
    ----------
    ratio
        The rate of A over that of B, paired by block, with its interval.
    margin
        The share by which equal rates may differ.
    difference_p, equivalence_p
        The p values of the paired t test and of the test for equality within the margin.
    detectable
        The least ratio that so many blocks would have found; NaN with fewer than three.
    further_blocks
        About how many more blocks would settle what is open; None if that is not known, or
        nothing is open.
    """

    outcome: Outcome
    ratio: Estimate
    margin: float
    difference_p: float
    equivalence_p: float
    minimum_detectable_ratio: float
    additional_blocks: int | None


def verdict(rates_a: ArrayLike, rates_b: ArrayLike, margin: float = MARGIN) -> Verdict:
    """Judge which of two systems is faster.

    An answer needs both the bootstrap interval and the t test. The interval bears an outlier
    and assumes nothing, but reaches 95 % only from six blocks on; the test holds its 5 % with
    three, but assumes that the logarithms are roughly symmetric. Within the margin two systems
    are equal, even if the difference is certain. The chance of a wrong answer is that of each
    comparison, not of a table of them.

    Parameters
    ----------
    rates_a, rates_b
        Of each block, more being better, in the same order of blocks; NaN for a run that gave
        none.
    margin
        The share by which equal rates may differ.
    """
    logs, ratio = log_ratios(rates_a, rates_b), paired_ratio(rates_a, rates_b)
    differs, equals = difference_p(logs), equivalence_p(logs, margin)
    outcome = classify(ratio, differs, equals, margin)
    return Verdict(
        outcome=outcome,
        ratio=ratio,
        margin=margin,
        difference_p=differs,
        equivalence_p=equals,
        minimum_detectable_ratio=minimum_detectable_ratio(logs),
        additional_blocks=additional_blocks(logs, margin) if outcome == "not settled" else None,
    )


def classify(ratio: Estimate, p_difference: float, p_equivalence: float, margin: float) -> Outcome:
    """Answer from the interval and the p values of the two tests; see `verdict`."""
    if ratio.n < MIN_BLOCKS:
        return "not settled"
    if p_equivalence < ALPHA and 1 / (1 + margin) < ratio.low and ratio.high < 1 + margin:
        return "equal"
    if p_difference < ALPHA and ratio.low > 1:
        return "A faster"
    if p_difference < ALPHA and ratio.high < 1:
        return "B faster"
    return "not settled"
