"""Which of two systems is faster: paired tests of difference and of equivalence, and a verdict.

Finding no difference does not show equality: three blocks find few differences. So each is a test
of its own, by statsmodels, on the logarithms of the ratios inside the blocks. Both are t tests:
with three blocks no interval without assumptions can reach more than 75 %, and these assume that
the logarithms are roughly symmetric.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from horizont.statistics.intervals import Estimate, log_ratios, paired_ratio

#: Rates that differ by less than this fraction are equal for practical purposes.
MARGIN = 0.10

#: Probability of finding a difference that exists.
POWER = 0.8

#: Probability of finding a difference that does not exist.
ALPHA = 0.05

#: With fewer blocks nothing is settled.
MIN_BLOCKS = 3

#: Limits of the search for a number of blocks, and for an effect in standard deviations, which
#: the smallest number of blocks finds.
_MAX_BLOCKS = 10_000
_MAX_EFFECT = 6.0

#: For an effect times the root of the blocks above this, the power is at least 0.95 with three
#: blocks and 1 with more, and the noncentral t distribution overflows.
_SATURATED_EFFECT = 10.0

#: Spread of repeated rates above which a warning is shown.
SPREAD_WARNING = 0.05

#: Runs that a drift needs to be significant: five in order occur by chance in one of sixty cases.
MIN_RUNS_FOR_DRIFT = 5

Outcome = Literal["A faster", "B faster", "equal", "not settled"]


def difference_p(log_ratio: ArrayLike) -> float:
    """Test whether two systems are equally fast, by the two-sided paired t test: the p value.

    From the :func:`~horizont.statistics.intervals.log_ratios` of the blocks. NaN with fewer than
    two blocks. If all blocks are identical it is 0, or 1 if all log ratios are zero.
    """
    from statsmodels.stats.weightstats import DescrStatsW

    log_ratio = np.asarray(log_ratio, dtype=np.float64)
    if log_ratio.size < 2:
        return math.nan
    if not np.ptp(log_ratio):
        return float(log_ratio[0] == 0.0)
    return float(DescrStatsW(log_ratio).ttest_mean(0.0)[1])


def equivalence_p(log_ratio: ArrayLike, margin: float = MARGIN) -> float:
    """Test whether two systems differ by more than a margin, by two one-sided paired t tests.

    The p value is small if they are equal within the margin, a fraction: with 0.1, ratios between
    1 / 1.1 and 1.1 are equal.

    References
    ----------
    Schuirmann, "A comparison of the two one-sided tests procedure and the power approach",
    Journal of Pharmacokinetics and Biopharmaceutics 15, 1987.
    """
    from statsmodels.stats.weightstats import ttost_paired

    log_ratio = np.asarray(log_ratio, dtype=np.float64)
    bound = math.log1p(margin)
    if log_ratio.size < 2:
        return math.nan
    if not np.ptp(log_ratio):
        return float(abs(log_ratio[0]) >= bound)
    return float(ttost_paired(log_ratio, np.zeros_like(log_ratio), -bound, bound)[0])


def minimum_detectable_ratio(log_ratio: ArrayLike) -> float:
    """Estimate the smallest ratio that this number of blocks with this spread would have found.

    The ratio, above 1, that the two-sided paired t test at 5 % finds with a probability of 80 %, if
    the spread of these blocks is the true one; NaN with fewer than three blocks.
    """
    log_ratio = np.asarray(log_ratio, dtype=np.float64)
    if log_ratio.size < MIN_BLOCKS:
        return math.nan
    effect = scipy.optimize.brentq(
        lambda effect: _one_sided_power(effect, log_ratio.size, ALPHA / 2) - POWER,
        1e-6,
        _MAX_EFFECT,
    )
    return math.exp(float(effect) * float(np.std(log_ratio, ddof=1)))


def additional_blocks(log_ratio: ArrayLike, margin: float = MARGIN) -> int | None:
    """Estimate how many more blocks would settle a comparison.

    Either the difference is found or, if it is less than the margin, equality is shown; whichever
    needs fewer blocks. Difference and spread of these blocks are assumed to be the true ones, so
    that few blocks give a rough number only. At least 1; None with fewer than two blocks.
    """
    log_ratio = np.asarray(log_ratio, dtype=np.float64)
    if log_ratio.size < 2:
        return None
    deviation, difference = float(np.std(log_ratio, ddof=1)), abs(float(np.median(log_ratio)))
    required = [_required_blocks(difference, deviation, POWER, ALPHA / 2)]
    distance_to_margin = math.log1p(margin) - difference
    if distance_to_margin > 0:
        # Each of the two one-sided tests may fail in half of the remaining cases.
        required.append(_required_blocks(distance_to_margin, deviation, (1 + POWER) / 2, ALPHA))
    return max(1, min(required) - int(log_ratio.size))


def _required_blocks(difference: float, deviation: float, power: float, alpha: float) -> int:
    """Return the smallest number of blocks with which a t test reaches the power."""
    effect = min(difference / deviation, _MAX_EFFECT) if deviation > 0 else _MAX_EFFECT
    if _one_sided_power(effect, _MAX_BLOCKS, alpha) < power:
        return _MAX_BLOCKS
    numbers = range(MIN_BLOCKS, _MAX_BLOCKS + 1)
    index = bisect_left(numbers, power, key=lambda blocks: _one_sided_power(effect, blocks, alpha))
    return numbers[index]


def _one_sided_power(effect: float, blocks: int, alpha: float) -> float:
    """Return the power of a one-sided t test for an effect in standard deviations.

    That of a two-sided test is the same at half its alpha, except for findings of the wrong sign.
    """
    from statsmodels.stats.power import TTestPower

    if effect * math.sqrt(blocks) > _SATURATED_EFFECT:
        return 1.0
    return float(TTestPower().power(effect, blocks, alpha, alternative="larger"))


def spread(rates: ArrayLike) -> float:
    """Return the spread of repeated rates: the standard deviation of their logarithms.

    Small spreads are close to the coefficient of variation. NaN with fewer than two rates.
    """
    rates = np.asarray(rates, dtype=np.float64)
    rates = rates[rates > 0]  # false for NaN
    return float(np.std(np.log(rates), ddof=1)) if rates.size > 1 else math.nan


def drift(order: ArrayLike, rates: ArrayLike) -> tuple[float, float]:
    """Test whether rates rose or fell in the order in which they were measured.

    The order is a time in any unit. Kendall's rank correlation, from -1 to 1, and its p value,
    exact for few runs without ties; both NaN with fewer than five runs of known time and rate.
    """
    order, rates = np.asarray(order, dtype=np.float64), np.asarray(rates, dtype=np.float64)
    is_known = ~(np.isnan(order) | np.isnan(rates))
    if np.count_nonzero(is_known) < MIN_RUNS_FOR_DRIFT or not np.ptp(rates[is_known]):
        return math.nan, math.nan
    correlation = scipy.stats.kendalltau(order[is_known], rates[is_known])
    return float(correlation.statistic), float(correlation.pvalue)


@dataclass(frozen=True)
class Verdict:
    """Which of two systems is faster.

    Attributes
    ----------
    ratio
        The rate of A over that of B, paired by block.
    minimum_detectable_ratio
        NaN with fewer than three blocks.
    additional_blocks
        The estimated number of blocks that would settle the comparison; None if it is settled, or
        with fewer than two blocks.
    """

    outcome: Outcome
    ratio: Estimate
    minimum_detectable_ratio: float
    additional_blocks: int | None


def verdict(rates_a: ArrayLike, rates_b: ArrayLike, margin: float = MARGIN) -> Verdict:
    """Test which of two systems is faster.

    A verdict needs both the bootstrap interval and the t test. The interval is robust to outliers
    and assumes nothing, but reaches 95 % only from six blocks on; the test has its 5 % with three,
    but assumes that the logarithms are roughly symmetric. Within the margin two systems are
    equal, even if the difference is significant. The probability of a wrong verdict is that of a
    single comparison, not of a table of them.

    Rates are those of each block, higher is better, in the same order of blocks; NaN if a run has
    none. The margin is the fraction by which equal rates may differ.
    """
    log_ratio, ratio = log_ratios(rates_a, rates_b), paired_ratio(rates_a, rates_b)
    outcome = classify(ratio, difference_p(log_ratio), equivalence_p(log_ratio, margin), margin)
    more_blocks = additional_blocks(log_ratio, margin) if outcome == "not settled" else None
    return Verdict(outcome, ratio, minimum_detectable_ratio(log_ratio), more_blocks)


def classify(ratio: Estimate, p_difference: float, p_equivalence: float, margin: float) -> Outcome:
    """Return the outcome for an interval and the p values of the two tests; see `verdict`."""
    if ratio.n < MIN_BLOCKS:
        return "not settled"
    if p_equivalence < ALPHA and 1 / (1 + margin) < ratio.low and ratio.high < 1 + margin:
        return "equal"
    if p_difference < ALPHA and ratio.low > 1:
        return "A faster"
    if p_difference < ALPHA and ratio.high < 1:
        return "B faster"
    return "not settled"
