"""From a measured quantity and its interval to a verdict on a claim."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, sqrt
from typing import Any, Literal, get_args

from horizont.analysis.claims.evidence import Measured
from horizont.analysis.claims.quantities import is_learning
from horizont.analysis.claims.rules import EQUAL_WITHIN, Check
from horizont.statistics.comparison import MIN_BLOCKS
from horizont.statistics.intervals import NO_ESTIMATE, Estimate

Verdict = Literal["reproduced", "not reproduced", "reversed", "not settled", "not testable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

#: A part of a claim and its result, as in ``reports/claims.json``.
Finding = dict[str, Any]


def threshold_for(published: float | None, threshold: float | None) -> float:
    """Return the threshold that a ratio must exceed.

    A published factor counts as reproduced if at least half of it, in logarithms, is measured:
    its square root. Without a published factor only the direction is claimed.
    """
    if threshold is not None:
        return threshold
    return sqrt(published) if published is not None else 1.0


def decide(
    measured: Estimate,
    expect: str,
    threshold: float,
    neutral: float | None = 1.0,
    within: float = EQUAL_WITHIN,
) -> Verdict:
    """Compare an interval with what was claimed.

    It was ``above`` or ``below`` the threshold, or ``equal``: within a factor of one. `neutral` is
    the value that means no difference: if the interval lies beyond it, by more than `within`, on
    the side that was not claimed, the claim is reversed. None where there is no such side. Where
    only a direction was claimed, an interval inside `within` is no difference, so it refutes it.
    """
    low, high = measured.low, measured.high
    if measured.n < MIN_BLOCKS or isnan(low):
        return "not settled"
    is_equal = low > 1 / within and high < within
    if expect == "equal":
        if is_equal:
            return "reproduced"
        is_different = low > within or high < 1 / within
        return "not reproduced" if is_different else "not settled"
    if expect == "below":  # the reciprocal must lie above
        low, high, threshold = 1 / high, 1 / low, 1 / threshold
        neutral = 1 / neutral if neutral else None
    is_no_difference = threshold == neutral == 1.0 and is_equal
    if low > threshold and not is_no_difference:
        return "reproduced"
    if neutral is not None and high < neutral / within:
        return "reversed"
    return "not reproduced" if high < threshold or is_no_difference else "not settled"


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim from those on its parts: it holds if all of them do.

    One refuted part refutes the claim; it is reversed if all parts that could be tested are. A
    part that could not be tested makes it not settled, unless none could.
    """
    tested = {verdict for verdict in verdicts if verdict != "not testable"}
    if not tested:
        return "not testable"
    if tested == {"reversed"}:
        return "reversed"
    if tested & {"reversed", "not reproduced"}:
        return "not reproduced"
    return "reproduced" if set(verdicts) == {"reproduced"} else "not settled"


def finding(
    check: Check,
    subject: str,
    workload: str,
    verdict: Verdict | None = None,
    *,
    measured: Measured | None = None,
    reason: str = "",
    unit: str = "blocks",
) -> Finding:
    """Build a part of a claim; numbers have four significant digits, None where unknown.

    The subject is the measured quantity in words; `unit` is what was counted. By default the
    interval of the measured quantity decides the verdict. Accuracies and losses have no margin:
    a ratio of theirs within 10 % may be the whole effect.
    """
    threshold = threshold_for(check.published, check.threshold)
    estimate = measured.estimate if measured else NO_ESTIMATE
    if verdict is None:
        neutral = None if check.threshold not in (None, 1.0) else 1.0
        has_margin = check.expect == "equal" or not is_learning(check.quantity)
        within = check.within if has_margin else 1.0
        verdict = decide(estimate, check.expect, threshold, neutral, within)
        reason = too_few(estimate.n, unit)
    has_threshold = bool(check.quantity) and check.expect != "equal"
    return {
        "subject": subject,
        "workload": workload,
        "expect": check.expect if check.quantity else "",
        "threshold": _rounded(threshold) if has_threshold else None,
        "within": check.within if check.expect == "equal" else None,
        "published": _rounded(check.published),
        **{name: _rounded(getattr(estimate, name)) for name in ("value", "low", "high")},
        "level": _rounded(estimate.level) if estimate.n > 1 else None,
        "n": estimate.n,
        "unit": unit,
        "verdict": verdict,
        "decides": check.decides,
        "evidence": measured.evidence if measured else "",
        "reason": reason,
        "conditions": measured.conditions if measured else "",
        "records": measured.records if measured else [],
    }


def too_few(n: int, unit: str) -> str:
    """Return the reason why so many blocks or runs settle nothing; empty if there are enough."""
    if n >= MIN_BLOCKS:
        return ""
    return f"{n} {unit if n > 1 else unit.removesuffix('s')} of at least {MIN_BLOCKS}"


def _rounded(value: float | None) -> float | None:
    return None if value is None or isnan(value) else float(f"{value:.4g}")
