"""From a figure and its interval to a verdict on a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, nan, sqrt
from typing import Literal

from numpy.typing import ArrayLike

from horizont.analysis.claims.rules import Check
from horizont.statistics.intervals import Estimate, paired_ratio

Verdict = Literal["reproduced", "not reproduced", "reversed", "not settled", "not testable"]

VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "not reproduced",
    "reversed",
    "not settled",
    "not testable",
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


def decide(
    measured: Estimate, expect: str, threshold: float, neutral: float | None = 1.0
) -> Verdict:
    """Hold an interval against what was claimed.

    Parameters
    ----------
    expect
        ``above`` or ``below`` the threshold, or ``equal``: within `EQUAL_WITHIN` of one.
    neutral
        The figure that would mean no difference; beyond it, by more than `EQUAL_WITHIN`, on the
        side that was not claimed, the claim is reversed. None where there is no such side.
    """
    if measured.n < 2 or isnan(measured.low):
        return "not settled"
    if expect == "equal":
        return _decide_equal(measured)
    low, high = measured.low, measured.high
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


def _decide_equal(measured: Estimate) -> Verdict:
    if _is_equal(measured.low, measured.high):
        return "reproduced"
    outside = measured.low > EQUAL_WITHIN or measured.high < 1 / EQUAL_WITHIN
    return "not reproduced" if outside else "not settled"


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Sum the verdicts on the parts of a claim up: it holds if all of them do.

    A part that is refuted refutes the claim; it is reversed if all that could be decided were. A
    part that could not be tested leaves it open, unless none could.
    """
    decided = [verdict for verdict in verdicts if verdict != "not testable"]
    if not decided:
        return "not testable"
    if all(verdict == "reversed" for verdict in decided):
        return "reversed"
    if any(verdict in ("reversed", "not reproduced") for verdict in decided):
        return "not reproduced"
    whole = len(decided) == len(verdicts)
    return "reproduced" if whole and set(decided) == {"reproduced"} else "not settled"


NO_ESTIMATE = Estimate(nan, nan, nan, 0.0, 0)


@dataclass(frozen=True)
class Finding:
    """A part of a claim, and what the runs say to it.

    Attributes
    ----------
    what
        The figure in words.
    published
        The published figure; None of a claim in words.
    conditions
        Under which the runs were made.
    records
        The names of the records that the figure was computed from.
    """

    subject: str
    workload: str
    verdict: Verdict
    expect: str = ""
    threshold: float | None = None
    published: float | None = None
    measured: Estimate = NO_ESTIMATE
    reason: str = ""
    conditions: str = ""
    records: tuple[str, ...] = field(default=())


def not_testable_finding(
    check: Check, subject: str, workload: str, reason: str, published: float | None = None
) -> Finding:
    """Make the finding that nothing can be found; it still tells what would decide."""
    compared = bool(check.quantity) and check.expect != "equal"
    return Finding(
        subject,
        workload,
        "not testable",
        expect=check.expect if check.quantity else "",
        threshold=threshold_for(published, check.threshold) if compared else None,
        published=published,
        reason=reason,
    )


def finding_from(
    check: Check,
    subject: str,
    workload: str,
    measured: tuple[Estimate, tuple[str, ...]],
    *,
    published: float | None,
    conditions: str,
) -> Finding:
    """Make the finding of a figure with its interval and the records that it comes from."""
    found, records = measured
    threshold = threshold_for(published, check.threshold)
    neutral = None if check.threshold not in (None, 1.0) else 1.0
    return Finding(
        subject,
        workload,
        decide(found, check.expect, threshold, neutral),
        expect=check.expect,
        threshold=None if check.expect == "equal" else threshold,
        published=published,
        measured=found,
        reason="one block gives no interval" if found.n < 2 else "",
        conditions=conditions,
        records=records,
    )


#: Quantity -> what it is called.
QUANTITY_LABELS = {
    "total_s": "total time",
    "examples_per_s": "throughput",
    "step_s": "step time",
    "load_s": "load time",
    "forward_s": "forward time",
    "backward_s": "backward time",
    "compute_s": "forward and backward time",
    "update_s": "weight update",
    "network_s": "communication with waiting",
    "network_fraction": "share of communication and waiting in the step",
    "peak_memory_mib": "most resident memory of a worker",
    "half_accuracy_fraction": "share of the run until test accuracy is a half",
    "final_accuracy": "final test accuracy",
    "loss_at_100_updates": "loss after 100 updates",
}


def quantity_label(quantity: str) -> str:
    """Name a quantity for readers."""
    if quantity.startswith("operator:"):
        return f"operator {quantity.removeprefix('operator:')}"
    return QUANTITY_LABELS[quantity]
