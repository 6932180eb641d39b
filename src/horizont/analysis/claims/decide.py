"""From a figure and its interval to a verdict on a claim."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, sqrt
from typing import Literal

from numpy.typing import ArrayLike

from horizont.stats import Estimate, paired_ratio

Verdict = Literal["reproduced", "not reproduced", "reversed", "not settled", "not testable here"]

VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "not reproduced",
    "reversed",
    "not settled",
    "not testable here",
)

#: Two quantities whose ratio lies within this factor of one are equal.
EQUAL_WITHIN = 1.1


def compare(over: ArrayLike, under: ArrayLike) -> Estimate:
    """Estimate a ratio that is paired by block: the one place where claims meet statistics."""
    return paired_ratio(over, under)


def threshold_for(published: float | None, threshold: float | None) -> float:
    """Tell what a ratio must exceed.

    A published factor counts as reproduced if at least half of it, in logarithms, is there: its
    square root. Without one the direction alone is claimed.
    """
    if threshold is not None:
        return threshold
    return sqrt(published) if published is not None else 1.0


def decide(found: Estimate, expect: str, threshold: float, neutral: float | None = 1.0) -> Verdict:
    """Hold an interval against what was claimed.

    Parameters
    ----------
    expect
        ``above`` or ``below`` the threshold, or ``equal``: within `EQUAL_WITHIN` of one.
    neutral
        The figure that would mean no difference; beyond it, by more than `EQUAL_WITHIN`, on the
        side that was not claimed, the claim is reversed. None where there is no such side.
    """
    if found.n < 2 or isnan(found.low):
        return "not settled"
    if expect == "equal":
        return _decide_equal(found)
    low, high = found.low, found.high
    if expect == "below":  # the same, upside down
        low, high, threshold = 1 / high, 1 / low, 1 / threshold
        neutral = 1 / neutral if neutral else None
    if low > threshold:
        return "reproduced"
    if neutral is not None and high < neutral / EQUAL_WITHIN:
        return "reversed"
    refuted = high < threshold or (threshold == neutral == 1.0 and _is_equal(low, high))
    return "not reproduced" if refuted else "not settled"


def _is_equal(low: float, high: float) -> bool:
    """Whether there is shown to be no difference worth the name."""
    return low > 1 / EQUAL_WITHIN and high < EQUAL_WITHIN


def _decide_equal(found: Estimate) -> Verdict:
    if _is_equal(found.low, found.high):
        return "reproduced"
    outside = found.low > EQUAL_WITHIN or found.high < 1 / EQUAL_WITHIN
    return "not reproduced" if outside else "not settled"


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Sum the verdicts on the parts of a claim up: it holds if all of them do.

    A part that is refuted refutes the claim; it is reversed if all that could be decided were. A
    part that could not be tested leaves it open, unless none could.
    """
    decided = [verdict for verdict in verdicts if verdict != "not testable here"]
    if not decided:
        return "not testable here"
    if all(verdict == "reversed" for verdict in decided):
        return "reversed"
    if any(verdict in ("reversed", "not reproduced") for verdict in decided):
        return "not reproduced"
    whole = len(decided) == len(verdicts)
    return "reproduced" if whole and set(decided) == {"reproduced"} else "not settled"
