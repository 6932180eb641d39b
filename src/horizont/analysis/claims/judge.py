"""The verdicts on all published claims, from the runs at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

from horizont.analysis.claims.capabilities import learning, outside, survival
from horizont.analysis.claims.checks import growth, ordering, ratio, share, trend
from horizont.analysis.claims.decide import combine
from horizont.analysis.claims.evidence import Evidence
from horizont.analysis.claims.findings import Finding
from horizont.analysis.claims.published import Claim, read_claims
from horizont.analysis.claims.rules import AnyCheck, Rules, read_rules
from horizont.analysis.claims.seen import see
from horizont.analysis.runs import ProofStatus
from horizont.records import Record

#: Kind of a rule -> what looks at the runs; one line a kind.
KINDS: dict[str, Callable[[Evidence, Any, str], list[Finding]]] = {
    "ratio": ratio,
    "ordering": ordering,
    "trend": trend,
    "growth": growth,
    "share": share,
    "survival": survival,
    "learning": learning,
    "outside": outside,
}


def judge(
    records: Sequence[Record], proofs: Mapping[str, ProofStatus], rules: Rules | None = None
) -> list[dict[str, Any]]:
    """Give a verdict on every published claim.

    Parameters
    ----------
    records
        Of all experiments and workloads at hand.
    proofs
        By workload, whether its systems were shown to train the same network.
    rules
        Those to judge by; nothing takes the project's own.

    Returns
    -------
    list of dict
        A claim each, in the order of publication, as ``reports/claims.json`` keeps it: the claim
        as published, ``kinds`` of its rule, ``verdict``, ``reason``, ``parts`` (each with its own
        verdict, published figure, today's ``value`` with ``low``, ``high``, ``level`` and ``n``
        blocks, conditions and records) and ``records``, the names of all runs it rests on.
    """
    evidence = Evidence(see(list(records), dict(proofs)))
    rules = read_rules() if rules is None else rules
    return [
        _judged(claim, rules[claim.id], evidence) for claim in read_claims() if claim.id in rules
    ]


def _judged(claim: Claim, checks: Sequence[AnyCheck], evidence: Evidence) -> dict[str, Any]:
    found = [finding for check in checks for finding in _findings(evidence, check)]
    verdict = combine([finding.verdict for finding in found])
    records = dict.fromkeys(name for finding in found for name in finding.records)
    return {
        **claim.model_dump(),
        "kinds": sorted({check.kind for check in checks}),
        "verdict": verdict,
        "reason": _reason(found, verdict),
        "parts": [_as_data(finding) for finding in found],
        "records": list(records),
    }


def _findings(evidence: Evidence, check: AnyCheck) -> list[Finding]:
    """Look at every workload of a check; where any will do, at the first that can be tested."""
    by_workload = [KINDS[check.kind](evidence, check, workload) for workload in check.workloads]
    if not check.any_workload:
        return [finding for findings in by_workload for finding in findings]
    tested = [f for f in by_workload if any(x.verdict != "not testable here" for x in f)]
    return (tested or by_workload)[0]


def _reason(found: Sequence[Finding], verdict: str) -> str:
    """Say why a claim stays open, by the first part that does."""
    missing = [finding for finding in found if finding.verdict == "not testable here"]
    if verdict == "not testable here":
        return missing[0].reason
    if verdict == "not settled" and missing:
        return f"{len(missing)} of {len(found)} parts could not be tested: {missing[0].reason}"
    open_ones = [finding.reason for finding in found if finding.verdict == "not settled"]
    if verdict == "not settled":
        return open_ones[0] or "the interval reaches to both sides of the threshold"
    return ""


def _as_data(finding: Finding) -> dict[str, Any]:
    found = finding.found
    return {
        "what": finding.what,
        "workload": finding.workload,
        "expect": finding.expect,
        "threshold": _number(finding.threshold),
        "published": _number(finding.published),
        "value": _number(found.value),
        "low": _number(found.low),
        "high": _number(found.high),
        "level": _number(found.level) if found.n > 1 else None,
        "n": found.n,
        "verdict": finding.verdict,
        "reason": finding.reason,
        "conditions": finding.conditions,
        "records": list(finding.records),
    }


def _number(value: float | None) -> float | None:
    """Round to four figures; what is not known is None."""
    return None if value is None or isnan(value) else float(f"{value:.4g}")
