"""The verdicts on all published claims, from the runs at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

import pandas as pd

from horizont.analysis.claims.checks import (
    fraction,
    growth,
    learns,
    not_testable,
    ordering,
    ratio,
    survives_fault,
    trend,
)
from horizont.analysis.claims.evidence import Evidence, measured_runs
from horizont.analysis.claims.findings import Finding, combine
from horizont.analysis.claims.rules import (
    AnyCheck,
    Claim,
    Rules,
    published_times,
    read_claims,
    read_rules,
)
from horizont.analysis.runs import CertificateStatus, records_of_system, system_order
from horizont.analysis.steps import phases
from horizont.records.record import Record

#: Kind of a rule -> what looks at the runs; one line a kind.
CHECK_FUNCTIONS: dict[str, Callable[[Evidence, Any, str], list[Finding]]] = {
    "ratio": ratio,
    "ordering": ordering,
    "trend": trend,
    "growth": growth,
    "fraction": fraction,
    "survives_fault": survives_fault,
    "learns": learns,
    "not_testable": not_testable,
}


def claim_verdicts(
    records: Sequence[Record],
    certificates: Mapping[str, CertificateStatus],
    rules: Rules | None = None,
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
    evidence = Evidence(measured_runs(list(records), dict(certificates)))
    rules = read_rules() if rules is None else rules
    return [
        _judge_claim(claim, rules[claim.id], evidence)
        for claim in read_claims()
        if claim.id in rules
    ]


def _judge_claim(claim: Claim, checks: Sequence[AnyCheck], evidence: Evidence) -> dict[str, Any]:
    found = [finding for check in checks for finding in _findings(evidence, check)]
    verdict = combine([finding.verdict for finding in found])
    records = dict.fromkeys(name for finding in found for name in finding.records)
    return {
        **claim.model_dump(),
        "kinds": sorted({check.kind for check in checks}),
        "verdict": verdict,
        "reason": _reason(found, verdict),
        "parts": [_finding_fields(finding) for finding in found],
        "records": list(records),
    }


def _findings(evidence: Evidence, check: AnyCheck) -> list[Finding]:
    """Look at every workload of a check; where any will do, at the first that can be tested."""
    by_workload = [
        CHECK_FUNCTIONS[check.kind](evidence, check, workload) for workload in check.workloads
    ]
    if not check.any_workload:
        return [finding for findings in by_workload for finding in findings]
    tested = [f for f in by_workload if any(x.verdict != "not testable" for x in f)]
    return (tested or by_workload)[0]


def _reason(found: Sequence[Finding], verdict: str) -> str:
    """Say why a claim stays open, by the first part that does."""
    missing = [finding for finding in found if finding.verdict == "not testable"]
    if verdict == "not testable":
        return missing[0].reason
    if verdict == "not settled" and missing:
        return f"{len(missing)} of {len(found)} parts could not be tested: {missing[0].reason}"
    open_ones = [finding.reason for finding in found if finding.verdict == "not settled"]
    if verdict == "not settled":
        return open_ones[0] or "the interval reaches to both sides of the threshold"
    return ""


def _finding_fields(finding: Finding) -> dict[str, Any]:
    found = finding.measured
    return {
        "subject": finding.subject,
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


#: The system whose step is the unit, then and now: it was and is measured on every network.
REFERENCE = "pytorch/sync/allreduce"

#: The published parts by their names here. The network's time was not taken apart.
PUBLISHED_PHASE_COLUMNS = {
    "load": "load_s",
    "forward": "forward_s",
    "backward": "backward_s",
    "communication": "network_s",
}


def published_vs_measured(workload: str, records: Sequence[Record]) -> pd.DataFrame:
    """Put the published times of a workload beside those measured.

    Parameters
    ----------
    records
        Of one experiment on the workload.

    Returns
    -------
    pandas.DataFrame
        A row a system, time (``published``, ``measured``) and part: ``system, time, part, share`` of the
        reference's step at that time. Of today's parts, ``communication`` holds the waiting, as
        it did then. The update was not published apart. A system without a figure at one of the
        times has no row for it.
    """
    tables = [_published_fractions(workload), _measured_fractions(records)]
    tables = [table for table in tables if len(table)]
    columns = ["system", "origin", "phase", "fraction"]
    if not tables:
        return pd.DataFrame(columns=columns)
    table = pd.concat(tables, ignore_index=True)
    place = {name: number for number, name in enumerate(system_order(table["system"]))}
    return table.sort_values(
        "system", key=lambda column: column.map(place), kind="stable", ignore_index=True
    )[columns]


def _published_fractions(workload: str) -> pd.DataFrame:
    table = published_times()
    own = table[table["workload"] == workload].set_index("system")
    if REFERENCE not in own.index:
        return pd.DataFrame()
    unit = float(own["total_s"].to_dict()[REFERENCE])
    rows = [
        {"system": system, "origin": "published", "phase": part, "fraction": row[column] / unit}
        for system, row in own.iterrows()
        for part, column in PUBLISHED_PHASE_COLUMNS.items()
    ]
    return pd.DataFrame(rows)


def _measured_fractions(records: Sequence[Record]) -> pd.DataFrame:
    wide = phases([record for record in records if not record.run.system.is_local])
    wide = wide.pivot(index="system", columns="phase", values="mean_s")
    if REFERENCE not in wide.index or not records_of_system(records, REFERENCE):
        return pd.DataFrame()
    unit = float(wide.sum(axis="columns").to_dict()[REFERENCE])
    if not unit > 0:
        return pd.DataFrame()
    wide["communication"] = wide[["communication", "waiting"]].sum(axis="columns", min_count=1)
    table = (wide.drop(columns="waiting") / unit).reset_index()
    long = table.melt(id_vars="system", var_name="phase", value_name="fraction").dropna()
    return long.assign(time="measured")
