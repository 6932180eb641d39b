"""Verdicts on the published claims; published against measured times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

import pandas as pd

from horizont.analysis.claims import checks
from horizont.analysis.claims.evidence import Evidence, measured_runs
from horizont.analysis.claims.findings import Finding, combine
from horizont.analysis.claims.rules import (
    AnyCheck,
    Claim,
    Rules,
    published_times,
    read_claims,
    read_rules,
    read_sources,
)
from horizont.analysis.runs import CertificateStatus, sort_by_system
from horizont.analysis.steps import phases
from horizont.records.record import Record

#: Kind of a rule -> the function that tests it.
CHECK_FUNCTIONS: dict[str, Callable[[Evidence, Any, str], list[Finding]]] = {
    "ratio": checks.ratio,
    "ordering": checks.ordering,
    "trend": checks.trend,
    "growth": checks.growth,
    "fraction": checks.fraction,
    "survives_fault": checks.survives_fault,
    "learns": checks.learns,
    "not_testable": checks.not_testable,
}

#: The system whose step is the unit, published and measured: both have it on every network.
REFERENCE = read_sources()["NTUA 2021"].reference_system

#: Phase -> its published column; the network's time was published as a whole.
PUBLISHED_PHASE_COLUMNS = {
    "load": "load_s",
    "forward": "forward_s",
    "backward": "backward_s",
    "communication": "network_s",
}


def claim_verdicts(
    records: Sequence[Record],
    certificates: Mapping[str, CertificateStatus],
    rules: Rules | None = None,
) -> list[dict[str, Any]]:
    """Compute the verdict on every published claim.

    One per claim, in the order of publication, as in ``reports/claims.json``: the claim as
    published, ``kinds`` of its rule, ``verdict``, ``reason``, ``parts`` (each with verdict,
    published value, measured ``value`` with ``low``, ``high``, ``level`` and ``n`` blocks,
    conditions and records) and ``records``, the names of all runs it is based on.

    Parameters
    ----------
    records
        Of all available experiments and workloads.
    certificates
        By workload, whether its systems were verified to train the same network.
    rules
        By default those of the project.
    """
    evidence = Evidence(measured_runs(records, certificates))
    rules = read_rules() if rules is None else rules
    return [
        _judge_claim(claim, rules[claim.id], evidence)
        for claim in read_claims()
        if claim.id in rules
    ]


def _judge_claim(claim: Claim, parts: Sequence[AnyCheck], evidence: Evidence) -> dict[str, Any]:
    findings = [finding for check in parts for finding in _findings(evidence, check)]
    verdict = combine([finding.verdict for finding in findings])
    return {
        **claim.model_dump(),
        "kinds": sorted({check.kind for check in parts}),
        "verdict": verdict,
        "reason": _reason(findings, verdict),
        "parts": [_finding_fields(finding) for finding in findings],
        "records": list(dict.fromkeys(name for f in findings for name in f.records)),
    }


def _findings(evidence: Evidence, check: AnyCheck) -> list[Finding]:
    """Run a check on every workload or, if any will do, on the first that can be tested."""
    by_workload = [
        CHECK_FUNCTIONS[check.kind](evidence, check, workload) for workload in check.workloads
    ]
    if not check.any_workload:
        return [finding for findings in by_workload for finding in findings]
    tested = [f for f in by_workload if any(finding.verdict != "not testable" for finding in f)]
    return (tested or by_workload)[0]


def _reason(findings: Sequence[Finding], verdict: str) -> str:
    """Return why a claim is undecided, from the first part that is."""
    untested = [finding.reason for finding in findings if finding.verdict == "not testable"]
    if verdict == "not testable":
        return untested[0]
    if verdict != "not settled":
        return ""
    if untested:
        return f"{len(untested)} of {len(findings)} parts could not be tested: {untested[0]}"
    reasons = [finding.reason for finding in findings if finding.verdict == "not settled"]
    return reasons[0] or "the interval includes the threshold"


def _finding_fields(finding: Finding) -> dict[str, Any]:
    measured = finding.measured
    return {
        "subject": finding.subject,
        "workload": finding.workload,
        "expect": finding.expect,
        "threshold": _rounded(finding.threshold),
        "published": _rounded(finding.published),
        "value": _rounded(measured.value),
        "low": _rounded(measured.low),
        "high": _rounded(measured.high),
        "level": _rounded(measured.level) if measured.n > 1 else None,
        "n": measured.n,
        "verdict": finding.verdict,
        "reason": finding.reason,
        "conditions": finding.conditions,
        "records": list(finding.records),
    }


def _rounded(value: float | None) -> float | None:
    """Return a number of four significant digits; None for NaN."""
    return None if value is None or isnan(value) else float(f"{value:.4g}")


def published_vs_measured(workload: str, records: Sequence[Record]) -> pd.DataFrame:
    """Compare the published times of a workload with those of the records of an experiment on it.

    One row per system, ``origin`` (``published``, ``measured``) and ``phase``: its ``fraction`` of
    the reference's step of the same origin. The measured ``communication`` includes the waiting, as
    the published one does. The update was not published separately. A system without a figure of an
    origin has no row for it.
    """
    tables = [_published_fractions(workload), _measured_fractions(records)]
    tables = [table for table in tables if len(table)]
    columns = ["system", "origin", "phase", "fraction"]
    if not tables:
        return pd.DataFrame(columns=columns)
    return sort_by_system(pd.concat(tables, ignore_index=True))[columns]


def _published_fractions(workload: str) -> pd.DataFrame:
    table = published_times()
    rows = table[table["workload"] == workload].set_index("system").to_dict("index")
    if REFERENCE not in rows:
        return pd.DataFrame()
    reference_s = rows[REFERENCE]["total_s"]
    fractions = [
        (system, phase, row[column] / reference_s)
        for system, row in rows.items()
        for phase, column in PUBLISHED_PHASE_COLUMNS.items()
    ]
    table = pd.DataFrame(fractions, columns=["system", "phase", "fraction"])
    return table.assign(origin="published")


def _measured_fractions(records: Sequence[Record]) -> pd.DataFrame:
    distributed = [record for record in records if not record.run.system.is_local]
    wide = phases(distributed).pivot(index="system", columns="phase", values="mean_s")
    if REFERENCE not in wide.index:
        return pd.DataFrame()
    reference_s = float(wide.T[REFERENCE].sum())
    if not reference_s > 0:
        return pd.DataFrame()
    wide["communication"] = wide[["communication", "waiting"]].sum(axis="columns", min_count=1)
    table = (wide.drop(columns="waiting") / reference_s).reset_index()
    long = table.melt(id_vars="system", var_name="phase", value_name="fraction").dropna()
    return long.assign(origin="measured")
