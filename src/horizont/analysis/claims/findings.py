"""From a measured quantity and its interval to a verdict on a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import Literal, get_args

from horizont.analysis.claims.rules import Check
from horizont.statistics.intervals import Estimate

Verdict = Literal["reproduced", "not reproduced", "reversed", "not settled", "not testable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

#: Two quantities whose ratio lies within this factor of one are equal.
EQUAL_WITHIN = 1.1

NO_ESTIMATE = Estimate(nan, nan, nan, 0.0, 0)

#: Quantity -> its label.
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
    "network_fraction": "fraction of communication and waiting in the step",
    "peak_memory_mib": "peak resident memory of a worker",
    "half_accuracy_fraction": "fraction of the run until test accuracy reaches one half",
    "final_accuracy": "final test accuracy",
    "loss_at_100_updates": "loss after 100 updates",
}


def quantity_label(quantity: str) -> str:
    """Return the label of a quantity."""
    if quantity.startswith("operator:"):
        return f"operator {quantity.removeprefix('operator:')}"
    return QUANTITY_LABELS[quantity]


def threshold_for(published: float | None, threshold: float | None) -> float:
    """Return the threshold that a ratio must exceed.

    A published factor counts as reproduced if at least half of it, in logarithms, is measured:
    its square root. Without a published factor only the direction is claimed.
    """
    if threshold is not None:
        return threshold
    return sqrt(published) if published is not None else 1.0


def decide(
    measured: Estimate, expect: str, threshold: float, neutral: float | None = 1.0
) -> Verdict:
    """Compare an interval with what was claimed.

    Parameters
    ----------
    expect
        ``above`` or ``below`` the threshold, or ``equal``: within `EQUAL_WITHIN` of one.
    neutral
        The value that means no difference; if the interval lies beyond it, by more than
        `EQUAL_WITHIN`, on the side that was not claimed, the claim is reversed. None where there
        is no such side.
    """
    low, high = measured.low, measured.high
    if measured.n < 2 or isnan(low):
        return "not settled"
    is_equal = low > 1 / EQUAL_WITHIN and high < EQUAL_WITHIN
    if expect == "equal":
        if is_equal:
            return "reproduced"
        is_different = low > EQUAL_WITHIN or high < 1 / EQUAL_WITHIN
        return "not reproduced" if is_different else "not settled"
    if expect == "below":  # the reciprocal must lie above
        low, high, threshold = 1 / high, 1 / low, 1 / threshold
        neutral = 1 / neutral if neutral else None
    if low > threshold:
        return "reproduced"
    if neutral is not None and high < neutral / EQUAL_WITHIN:
        return "reversed"
    is_refuted = high < threshold or (threshold == neutral == 1.0 and is_equal)
    return "not reproduced" if is_refuted else "not settled"


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim from those on its parts: it holds if all of them do.

    One refuted part refutes the claim; it is reversed if all parts that could be tested are. A
    part that could not be tested makes it not settled, unless none could.
    """
    tested = [verdict for verdict in verdicts if verdict != "not testable"]
    if not tested:
        return "not testable"
    if all(verdict == "reversed" for verdict in tested):
        return "reversed"
    if any(verdict in ("reversed", "not reproduced") for verdict in tested):
        return "not reproduced"
    is_complete = len(tested) == len(verdicts)
    return "reproduced" if is_complete and set(tested) == {"reproduced"} else "not settled"


@dataclass(frozen=True)
class Finding:
    """A part of a claim and its result.

    Attributes
    ----------
    subject
        The measured quantity in words.
    published
        The published value; None if there is none.
    conditions
        Under which the runs were made.
    records
        The names of the records of the measured value.
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
    records: tuple[str, ...] = ()


def not_testable_finding(check: Check, subject: str, workload: str, reason: str) -> Finding:
    """Build the finding of a part that could not be tested, with its threshold."""
    has_threshold = bool(check.quantity) and check.expect != "equal"
    return Finding(
        subject,
        workload,
        "not testable",
        expect=check.expect if check.quantity else "",
        threshold=threshold_for(check.published, check.threshold) if has_threshold else None,
        published=check.published,
        reason=reason,
    )


def finding_from(
    check: Check,
    subject: str,
    workload: str,
    measured: tuple[Estimate, tuple[str, ...]],
    conditions: str,
) -> Finding:
    """Build a finding from a measured quantity, its interval and its records."""
    estimate, records = measured
    threshold = threshold_for(check.published, check.threshold)
    neutral = None if check.threshold not in (None, 1.0) else 1.0
    return Finding(
        subject,
        workload,
        decide(estimate, check.expect, threshold, neutral),
        expect=check.expect,
        threshold=None if check.expect == "equal" else threshold,
        published=check.published,
        measured=estimate,
        reason="one block gives no interval" if estimate.n < 2 else "",
        conditions=conditions,
        records=records,
    )
