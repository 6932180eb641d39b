"""Verdicts on the published claims; published against measured times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from horizont.analysis.claims import checks, learning_checks
from horizont.analysis.claims.evidence import Evidence
from horizont.analysis.claims.findings import Finding, combine
from horizont.analysis.claims.observations import Observation
from horizont.analysis.claims.publications import (
    Claim,
    published_times,
    read_claims,
    read_sources,
)
from horizont.analysis.claims.rules import AnyCheck, Rules, read_rules
from horizont.analysis.runs import CertificateStatus, concat_tables, table_order
from horizont.analysis.steps import phases
from horizont.records.record import Record

#: The system whose step is the unit, published and measured: both have it on every network.
REFERENCE = read_sources()["NTUA 2021"].reference_system

#: Published column -> its phase; the network's time was published as a whole.
PUBLISHED_PHASES = {
    "load_s": "load",
    "forward_s": "forward",
    "backward_s": "backward",
    "network_s": "communication",
}


#: Kind of a check -> the function that computes its findings on a workload.
_CHECKS: dict[str, Callable[[Evidence, Any, str], list[Finding]]] = {
    **dict.fromkeys(("fraction", "ratio", "trend", "growth"), checks.contrast),
    "ordering": checks.ordering,
    "half_rate": checks.half_rate,
    "not_testable": checks.not_testable,
    "learns": learning_checks.learns,
    "largest_trainable": learning_checks.largest_trainable,
    "survives_fault": learning_checks.survives_fault,
    "completes": learning_checks.completes,
}


def claim_verdicts(
    records: Sequence[Record],
    certificates: Mapping[str, CertificateStatus],
    rules: Rules | None = None,
    predictions: Sequence[Observation] = (),
) -> list[dict[str, Any]]:
    """Compute the verdict on every published claim.

    One per claim, in the order of publication, as in ``reports/claims.json``: the claim as
    published, ``kinds`` of its rule, ``verdict``, ``reason``; ``evidence``, the lowest of
    `EVIDENCE_LEVELS` of its parts, and ``level``, the lowest of their intervals; ``parts`` (each
    with verdict, evidence, published value, measured ``value`` with ``low``, ``high``, ``level``
    and ``n`` blocks or runs, conditions and records; ``decides``, whether the verdict depends on
    it) and ``records``, the names of all runs it is based on.

    The records are of all available experiments and workloads, the certificates by workload, the
    rules by default those of the project. Predictions of a model stand for settings that were not
    run, see :func:`horizont.analysis.claims.observations.predict`: one per block of the runs that
    it was fitted to, so that the blocks give an interval. Raises `UserError` if two usable runs are
    of the same system, setting and block.
    """
    evidence = Evidence(records, certificates, predictions)
    rules = read_rules() if rules is None else rules
    return [
        _judge_claim(claim, rules[claim.id], evidence)
        for claim in read_claims()
        if claim.id in rules
    ]


def _judge_claim(claim: Claim, rule: Sequence[AnyCheck], evidence: Evidence) -> dict[str, Any]:
    findings = [finding for check in rule for finding in _findings(evidence, check)]
    deciding = [finding for finding in findings if finding["decides"]]
    verdict = combine([finding["verdict"] for finding in deciding])
    return {
        **claim.model_dump(),
        "kinds": sorted({check.kind for check in rule}),
        "verdict": verdict,
        "evidence": max((finding["evidence"] for finding in deciding), default=""),
        "level": min((f["level"] for f in deciding if f["level"]), default=None),
        "reason": _reason(deciding, verdict),
        "parts": findings,
        "records": list(dict.fromkeys(chain.from_iterable(f["records"] for f in findings))),
    }


def _findings(evidence: Evidence, check: AnyCheck) -> list[Finding]:
    """Run a check on every workload or, if any will do, on the first that can be tested."""
    compute = _CHECKS[check.kind]
    by_workload = [compute(evidence, check, workload) for workload in check.workloads]
    if not check.any_workload:
        return list(chain.from_iterable(by_workload))
    tested = [f for f in by_workload if any(part["verdict"] != "not testable" for part in f)]
    return (tested or by_workload)[0]


def _reason(findings: Sequence[Finding], verdict: str) -> str:
    """Return how many parts hold, and why a claim is undecided, from the first part that is."""
    untested = [part["reason"] for part in findings if part["verdict"] == "not testable"]
    if verdict == "not testable":
        return str(untested[0])
    if verdict not in ("not settled", "not reproduced"):
        return ""
    holding = sum(part["verdict"] == "reproduced" for part in findings)
    reasons = [f"{holding} of {len(findings)} parts reproduced"] * (len(findings) > 1)
    if verdict == "not settled" and untested:
        reasons.append(f"{len(untested)} could not be tested: {untested[0]}")
    elif verdict == "not settled":
        first = next(part["reason"] for part in findings if part["verdict"] == "not settled")
        reasons.append(first or "the interval includes the threshold")
    return "; ".join(reasons)


def published_vs_measured(workload: str, records: Sequence[Record]) -> pd.DataFrame:
    """Compare the published times of a workload with those of the records of an experiment on it.

    One row per system, ``origin`` (``published``, ``measured``) and ``phase``: its ``fraction`` of
    the reference's step of the same origin. The measured ``communication`` includes the waiting, as
    the published one does. The update was not published separately. A system without a figure of an
    origin has no row for it.
    """
    times = published_times()
    published = times[times["workload"] == workload].set_index("system")
    published_phases = published[list(PUBLISHED_PHASES)].rename(columns=PUBLISHED_PHASES)
    distributed = [record for record in records if not record.run.system.is_local]
    measured = phases(distributed).pivot(index="system", columns="phase", values="mean_s")
    step_s = measured.sum(axis="columns")
    if len(measured):
        with_waiting = measured[["communication", "waiting"]]
        measured["communication"] = with_waiting.sum(axis="columns", min_count=1)
        measured = measured.drop(columns="waiting")
    tables = [
        _relative_to_reference(published_phases, published["total_s"], "published"),
        _relative_to_reference(measured, step_s, "measured").dropna(),
    ]
    table = concat_tables(tables, tables[0].columns.tolist())
    return table.sort_values("system", key=table_order, kind="stable", ignore_index=True)


def _relative_to_reference(phase_s: pd.DataFrame, step_s: pd.Series, origin: str) -> pd.DataFrame:
    """Divide the phases of all systems by the reference's step; empty without one."""
    columns = ["system", "origin", "phase", "fraction"]
    reference_s = step_s.get(REFERENCE, 0.0)
    if not reference_s > 0:
        return pd.DataFrame(columns=columns)
    fractions: pd.DataFrame = (phase_s / reference_s).reset_index()
    table: pd.DataFrame = fractions.melt("system", var_name="phase", value_name="fraction")
    table.insert(1, "origin", origin)
    return table
