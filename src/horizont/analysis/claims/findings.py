"""A finding: a part of a claim and what the runs say to it, made the same way by every kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from horizont.analysis.claims.decide import Verdict, decide, threshold_for
from horizont.analysis.claims.rules import Check
from horizont.stats import Estimate

NOTHING = Estimate(nan, nan, nan, 0.0, 0)


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

    what: str
    workload: str
    verdict: Verdict
    expect: str = ""
    threshold: float | None = None
    published: float | None = None
    found: Estimate = NOTHING
    reason: str = ""
    conditions: str = ""
    records: tuple[str, ...] = field(default=())


def untestable(
    check: Check, what: str, workload: str, reason: str, published: float | None = None
) -> Finding:
    """Make the finding that nothing can be found; it still tells what would decide."""
    compared = bool(check.quantity) and check.expect != "equal"
    return Finding(
        what,
        workload,
        "not testable here",
        expect=check.expect if check.quantity else "",
        threshold=threshold_for(published, check.threshold) if compared else None,
        published=published,
        reason=reason,
    )


def told(
    check: Check,
    what: str,
    workload: str,
    figure: tuple[Estimate, tuple[str, ...]],
    *,
    published: float | None,
    conditions: str,
) -> Finding:
    """Make the finding of a figure with its interval and the records that it comes from."""
    found, records = figure
    threshold = threshold_for(published, check.threshold)
    neutral = None if check.threshold not in (None, 1.0) else 1.0
    return Finding(
        what,
        workload,
        decide(found, check.expect, threshold, neutral),
        expect=check.expect,
        threshold=None if check.expect == "equal" else threshold,
        published=published,
        found=found,
        reason="one block gives no interval" if found.n < 2 else "",
        conditions=conditions,
        records=records,
    )


#: Quantity -> what it is called.
NAMES = {
    "total_s": "total time",
    "examples_per_s": "throughput",
    "step_s": "step time",
    "load_s": "load time",
    "forward_s": "forward time",
    "backward_s": "backward time",
    "compute_s": "forward and backward time",
    "update_s": "weight update",
    "network_s": "communication with waiting",
    "network_share": "share of communication and waiting in the step",
    "peak_memory_mib": "most resident memory of a worker",
    "half_accuracy_share": "share of the run until test accuracy is a half",
    "final_accuracy": "final test accuracy",
    "loss_at_100_updates": "loss after 100 updates",
}


def name_of(quantity: str) -> str:
    """Name a quantity for readers."""
    if quantity.startswith("operator:"):
        return f"operator {quantity.removeprefix('operator:')}"
    return NAMES[quantity]
