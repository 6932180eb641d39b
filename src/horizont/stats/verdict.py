"""Which of two systems is faster: one of four answers, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from horizont.stats.equality import MARGIN, difference_p, equivalence_p
from horizont.stats.interval import Estimate
from horizont.stats.power import ALPHA, FEWEST, detectable_ratio, further_blocks
from horizont.stats.ratio import log_ratios, paired_ratio

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
    detectable: float
    further_blocks: int | None


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
    outcome = outcome_of(ratio, differs, equals, margin)
    return Verdict(
        outcome=outcome,
        ratio=ratio,
        margin=margin,
        difference_p=differs,
        equivalence_p=equals,
        detectable=detectable_ratio(logs),
        further_blocks=further_blocks(logs, margin) if outcome == "not settled" else None,
    )


def outcome_of(ratio: Estimate, differs: float, equals: float, margin: float) -> Outcome:
    """Answer from the interval and the p values of the two tests; see `verdict`."""
    if ratio.n < FEWEST:
        return "not settled"
    if equals < ALPHA and 1 / (1 + margin) < ratio.low and ratio.high < 1 + margin:
        return "equal"
    if differs < ALPHA and ratio.low > 1:
        return "A faster"
    if differs < ALPHA and ratio.high < 1:
        return "B faster"
    return "not settled"
