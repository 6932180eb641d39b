"""One function per kind of rule, named like it; each returns findings, the parts of a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pandas as pd
import scipy

from horizont.analysis.claims import rules
from horizont.analysis.claims.evidence import Comparison, Evidence
from horizont.analysis.claims.findings import Finding, Verdict, finding
from horizont.analysis.claims.quantities import quantity_label
from horizont.analysis.faults import OUTCOME_BY_END_REASON, kills_worker
from horizont.statistics.intervals import Estimate

#: Test accuracy beyond which a network of ten classes has learned something: twice chance.
LEARNED_ACCURACY = 0.2


def ratio(evidence: Evidence, check: rules.Ratio, workload: str) -> list[Finding]:
    """Compare the quantities of two systems in the same setting."""
    subject = f"{quantity_label(check.quantity)}, {check.over} over {check.under}"
    point = rules.CurvePoint(workload=workload)
    comparisons = [
        Comparison(
            setting.description(), [(check.over, setting, True), (check.under, setting, False)]
        )
        for setting in evidence.settings(check, check.over, point)
    ]
    if check.published is None:
        check = check.model_copy(update={"published": _published_ratio(check, workload)})
    reason = evidence.missing_reason(check, workload, [check.over, check.under])
    return _decide(evidence, check, subject, workload, comparisons, missing_reason=reason)


def ordering(evidence: Evidence, check: rules.Ordering, workload: str) -> list[Finding]:
    """Compare each of the other systems with the one claimed to be lowest or highest."""
    findings = []
    for other in check.others:
        over, under = (other, check.lowest) if check.lowest else (check.highest, other)
        pair = rules.Ratio(
            kind="ratio",
            quantity=check.quantity,
            experiments=check.experiments,
            batch=check.batch,
            over=over,
            under=under,
            threshold=1.0,
        )
        findings += ratio(evidence, pair, workload)
    return findings


def trend(evidence: Evidence, check: rules.Trend, workload: str) -> list[Finding]:
    """Compare a system's quantity at two points, per worker if the rule says so."""
    subject = f"{quantity_label(check.quantity)} of {check.system}, {_range_label(check)}"
    if check.per_worker:
        subject += ", per worker"
    comparisons = [
        Comparison(
            f"{start.description()}; then {end.description()}",
            [(check.system, end, True), (check.system, start, False)],
            scale=start.workers / end.workers if check.per_worker else 1.0,
        )
        for start, end in evidence.paired_points(check, check.system, workload)
    ]
    reason = _missing_point_reason(evidence, check, workload)
    return _decide(evidence, check, subject, workload, comparisons, missing_reason=reason)


def growth(evidence: Evidence, check: rules.Growth, workload: str) -> list[Finding]:
    """Compare the ratio of two systems at two points."""
    over, under = check.over, check.under
    subject = f"{quantity_label(check.quantity)}, {over} over {under}, {_range_label(check)}"
    comparisons = [
        Comparison(
            f"{start.description()}; then {end.description()}",
            [
                (over, end, True),
                (under, end, False),
                (over, start, False),
                (under, start, True),
            ],
        )
        for start, end in evidence.paired_points(check, over, workload)
    ]
    start_ratio = _published_ratio(check, check.start.workload)
    end_ratio = _published_ratio(check, check.end.workload)
    if check.published is None and start_ratio and end_ratio:
        check = check.model_copy(update={"published": end_ratio / start_ratio})
    workload = workload or check.end.workload
    reason = evidence.missing_reason(check, workload, [over, under])
    return _decide(evidence, check, subject, workload, comparisons, missing_reason=reason)


def fraction(evidence: Evidence, check: rules.Fraction, workload: str) -> list[Finding]:
    """Compare a fraction measured on one system with a threshold."""
    subject = f"{quantity_label(check.quantity)} of {check.system}"
    point = rules.CurvePoint(workload=workload)
    comparisons = [
        Comparison(setting.description(), [(check.system, setting, True)])
        for setting in evidence.settings(check, check.system, point)
    ]
    reason = evidence.missing_reason(check, workload, [check.system])
    return _decide(evidence, check, subject, workload, comparisons, missing_reason=reason)


def _decide(
    evidence: Evidence,
    check: rules.Check,
    subject: str,
    workload: str,
    comparisons: Iterable[Comparison],
    *,
    missing_reason: str,
) -> list[Finding]:
    """Compute the finding of the first measured comparison, or of all if the rule says so."""
    build = partial(finding, check, subject, workload)
    every = isinstance(check, rules.Ratio) and check.all_settings
    findings: list[Finding] = []
    for comparison in comparisons:
        measured = evidence.measure(check.quantity, comparison)
        if measured is not None:
            estimate, records = measured
            conditions = comparison.conditions
            findings.append(build(measured=estimate, conditions=conditions, records=records))
            if not every:
                break
    return findings or [build("not testable", reason=missing_reason)]


def _published_ratio(check: rules.Ratio | rules.Growth, workload: str) -> float | None:
    """Compute the ratio of a check from the published table; None if a time is missing."""
    value = rules.published_seconds(workload, check.over, check.quantity)
    value /= rules.published_seconds(workload, check.under, check.quantity)
    return value if value > 0 else None


def _range_label(check: rules.Trend | rules.Growth) -> str:
    return f"from {_point_label(check.start)} to {_point_label(check.end)}"


def _point_label(point: rules.CurvePoint) -> str:
    labels = [point.workload] if point.workload else []
    if point.workers is not None:
        labels.append("1 worker" if point.workers == 1 else f"{point.workers} workers")
    if point.batch is not None:
        is_number = isinstance(point.batch, int)
        labels.append(f"batch {point.batch}" if is_number else f"the {point.batch} batch")
    return ", ".join(labels)


def _missing_point_reason(evidence: Evidence, check: rules.Trend, workload: str) -> str:
    runs = evidence.usable
    runs = runs[(runs["system"] == check.system) & (runs["workload"] == workload)]
    if len(runs):
        most, wanted = runs["workers"].max(), check.end.workers
        reached = f"runs of {check.system} on {workload} reach {most} workers"
        if isinstance(wanted, str) and most < check.end.min_workers:
            return f"{reached} only"
        if isinstance(wanted, int) and check.quantity == "examples_per_s":
            wanted = max(wanted, check.end.min_workers)
            if most < wanted:
                return f"{reached}, not {wanted}"
    return evidence.missing_reason(check, workload, [check.system])


def survives_fault(evidence: Evidence, check: rules.SurvivesFault, workload: str) -> list[Finding]:
    """Test whether training completes when one of its workers is killed."""
    return [_survival_finding(evidence, check, workload, system) for system in check.systems]


def _survival_finding(
    evidence: Evidence, check: rules.SurvivesFault, workload: str, system: str
) -> Finding:
    subject = f"{system} {'continues' if check.completes else 'stops'} when a worker is killed"
    build = partial(finding, check, subject, workload)
    runs = evidence.runs
    runs = runs[(runs["system"] == system) & (runs["workload"] == workload)]
    completed: dict[str, bool] = {}
    conditions = []
    for record, setting in zip(runs["record"], runs["setting"], strict=True):
        report = record.fault_report()
        if report and kills_worker(record.run):
            outcome = OUTCOME_BY_END_REASON[report.end_reason]
            completed[record.folder.name] = outcome == "completes"
            conditions.append(setting.description())
    if not completed:
        reason = f"no runs of {system} on {workload} lost a worker"
        return build("not testable", reason=reason)
    as_claimed = sum(value is check.completes for value in completed.values())
    verdict: Verdict = "not settled" if as_claimed else "reversed"
    if as_claimed == len(completed):
        verdict = "reproduced"
    reason = f"as claimed in {as_claimed} of {len(completed)} runs"
    return build(verdict, reason=reason, conditions=conditions[0], records=list(completed))


def learns(evidence: Evidence, check: rules.Learns, workload: str) -> list[Finding]:
    """Count the runs that learned anything, at each number of workers of the rule."""
    verb = "learns" if check.learns else "fails to learn"
    subject = f"{check.system} {verb} at learning rate {check.learning_rate:g}"
    runs = evidence.usable
    runs = runs[
        (runs["system"] == check.system)
        & (runs["workload"] == workload)
        & (runs["batch"] == check.batch)
        & (runs["learning_rate"] == check.learning_rate)
        & runs["workers"].between(check.min_workers, check.max_workers)
        & runs["test_accuracy"].notna()
    ]
    if len(runs):
        groups = runs.groupby("workers")
        return [_learning_finding(check, subject, workload, group) for _, group in groups]
    reason = f"no runs of {check.system} on {workload} with {check.batch} examples per worker, "
    reason += f"learning rate {check.learning_rate:g} and {_worker_range(check)}"
    return [finding(check, subject, workload, "not testable", reason=reason)]


def _learning_finding(
    check: rules.Learns, subject: str, workload: str, runs: pd.DataFrame
) -> Finding:
    """Estimate the fraction of runs that learned, with the interval of Clopper and Pearson (1934).

    The claim is that most runs learn, or that most fail to.
    """
    learned = int((runs["test_accuracy"] > LEARNED_ACCURACY).sum())
    interval = scipy.stats.binomtest(learned, len(runs)).proportion_ci(0.95, method="exact")
    low, high = float(interval.low), float(interval.high)
    verdict: Verdict = "not settled"
    if low > 0.5 or high < 0.5:
        verdict = "reproduced" if (low > 0.5) is check.learns else "reversed"
    result = finding(
        check,
        subject,
        workload,
        verdict,
        measured=Estimate(learned / len(runs), low, high, 0.95, len(runs)),
        reason=f"{learned} of {len(runs)} runs learned",
        conditions=runs["setting"].iloc[0].description(),
        records=[record.folder.name for record in runs["record"]],
    )
    return {**result, "expect": "above" if check.learns else "below", "threshold": 0.5}


def _worker_range(check: rules.Learns) -> str:
    if check.min_workers == check.max_workers:
        return f"{check.min_workers} workers"
    if check.min_workers > 1:
        return f"at least {check.min_workers} workers"
    return f"at most {check.max_workers} workers"


def not_testable(_: Evidence, check: rules.NotTestable, workload: str) -> list[Finding]:
    """Return the reason why no experiment here can decide the claim."""
    return [finding(check, "outside the scope", workload, "not testable", reason=check.reason)]
