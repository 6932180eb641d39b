"""One function per kind of rule; each returns findings, the parts of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import scipy

from horizont.analysis.claims.evidence import (
    Evidence,
    Factor,
    MeasuredRun,
    paired_points,
    paired_quantity,
)
from horizont.analysis.claims.findings import (
    Finding,
    Verdict,
    finding_from,
    not_testable_finding,
    quantity_label,
)
from horizont.analysis.claims.rules import (
    CurvePoint,
    Fraction,
    Growth,
    Learns,
    NotTestable,
    Ordering,
    Ratio,
    SurvivesFault,
    Trend,
    published_seconds,
)
from horizont.analysis.faults import OUTCOME_BY_END_REASON
from horizont.statistics.intervals import Estimate, median_interval

AnyRatio = TypeVar("AnyRatio", Ratio, Growth)

#: Test accuracy beyond which a network of ten classes has learned something: twice chance.
LEARNED_ACCURACY = 0.2


def ratio(evidence: Evidence, check: Ratio, workload: str) -> list[Finding]:
    """Compare the quantities of two systems in the same setting."""
    subject = f"{quantity_label(check.quantity)}, {check.over} over {check.under}"
    check = _with_published(check, _published_ratio(check, workload))
    findings = []
    for setting in evidence.settings(check, check.over, CurvePoint(workload=workload)):
        factors = [Factor(check.over, setting, True), Factor(check.under, setting, False)]
        measured = paired_quantity(evidence, check.quantity, factors)
        if measured is not None:
            where = setting.description()
            findings.append(finding_from(check, subject, workload, measured, where))
    if not findings:
        reason = evidence.missing_reason(check, workload, [check.over, check.under])
        return [not_testable_finding(check, subject, workload, reason)]
    return findings if check.all_settings else findings[:1]


def ordering(evidence: Evidence, check: Ordering, workload: str) -> list[Finding]:
    """Compare each of the other systems with the one claimed to be lowest or highest."""
    findings = []
    for other in check.others:
        over, under = (other, check.lowest) if check.lowest else (check.highest, other)
        pair = Ratio(
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


def trend(evidence: Evidence, check: Trend, workload: str) -> list[Finding]:
    """Compare a system's quantity at two points, per worker if the rule says so."""
    subject = f"{quantity_label(check.quantity)} of {check.system}, {_range_label(check)}"
    if check.per_worker:
        subject += ", per worker"
    for start, end in paired_points(evidence, check, check.system, workload):
        factors = [Factor(check.system, end, True), Factor(check.system, start, False)]
        scale = start.workers / end.workers if check.per_worker else 1.0
        measured = paired_quantity(evidence, check.quantity, factors, scale)
        if measured is not None:
            where = f"{start.description()}; then {end.description()}"
            return [finding_from(check, subject, workload, measured, where)]
    reason = _missing_point_reason(evidence, check, workload)
    return [not_testable_finding(check, subject, workload, reason)]


def growth(evidence: Evidence, check: Growth, workload: str) -> list[Finding]:
    """Compare the ratio of two systems at two points."""
    subject = f"{quantity_label(check.quantity)}, {check.over} over {check.under}, "
    subject += _range_label(check)
    start_ratio = _published_ratio(check, check.start.workload)
    end_ratio = _published_ratio(check, check.end.workload)
    if start_ratio and end_ratio:
        check = _with_published(check, end_ratio / start_ratio)
    for start, end in paired_points(evidence, check, check.over, workload):
        factors = [
            Factor(check.over, end, True),
            Factor(check.under, end, False),
            Factor(check.over, start, False),
            Factor(check.under, start, True),
        ]
        measured = paired_quantity(evidence, check.quantity, factors)
        if measured is not None:
            where = f"{start.description()}; then {end.description()}"
            return [finding_from(check, subject, end.workload, measured, where)]
    shown = workload or check.end.workload
    reason = evidence.missing_reason(check, shown, [check.over, check.under])
    return [not_testable_finding(check, subject, shown, reason)]


def fraction(evidence: Evidence, check: Fraction, workload: str) -> list[Finding]:
    """Compare a fraction measured on one system with a threshold."""
    subject = f"{quantity_label(check.quantity)} of {check.system}"
    for setting in evidence.settings(check, check.system, CurvePoint(workload=workload)):
        values = evidence.values(check.system, setting, check.quantity)
        if values.by_block:
            estimate = median_interval(list(values.by_block.values()))
            measured, where = (estimate, tuple(values.records.values())), setting.description()
            return [finding_from(check, subject, workload, measured, where)]
    reason = evidence.missing_reason(check, workload, [check.system])
    return [not_testable_finding(check, subject, workload, reason)]


def _published_ratio(check: Ratio | Growth, workload: str) -> float | None:
    """Compute the ratio of a check from the published table; None if a time is missing."""
    value = published_seconds(workload, check.over, check.quantity)
    value /= published_seconds(workload, check.under, check.quantity)
    return value if value > 0 else None


def _with_published(check: AnyRatio, published: float | None) -> AnyRatio:
    """Return the check with a published factor, unless its rule gives one."""
    if check.published is not None:
        return check
    return check.model_copy(update={"published": published})


def _range_label(check: Trend | Growth) -> str:
    return f"from {_point_label(check.start)} to {_point_label(check.end)}"


def _point_label(point: CurvePoint) -> str:
    labels = [point.workload] if point.workload else []
    if point.workers is not None:
        labels.append("1 worker" if point.workers == 1 else f"{point.workers} workers")
    if point.batch is not None:
        is_number = isinstance(point.batch, int)
        labels.append(f"batch {point.batch}" if is_number else f"the {point.batch} batch")
    return ", ".join(labels)


def _missing_point_reason(evidence: Evidence, check: Trend, workload: str) -> str:
    runs = [run for run in evidence.runs if run.system == check.system and run.is_usable]
    counts = {run.setting.workers for run in runs if run.setting.workload == workload}
    reached = f"runs of {check.system} on {workload} reach {max(counts, default=0)} workers"
    wanted = check.end.workers
    if check.quantity == "examples_per_s" and counts and isinstance(wanted, int):
        wanted = max(wanted, check.end.min_workers)
        if max(counts) < wanted:
            return f"{reached}, not {wanted}"
    if isinstance(wanted, str) and counts and max(counts) < check.end.min_workers:
        return f"{reached} only"
    return evidence.missing_reason(check, workload, [check.system])


def survives_fault(evidence: Evidence, check: SurvivesFault, workload: str) -> list[Finding]:
    """Test whether training completes when one of its workers is killed."""
    return [_survival_finding(evidence, check, workload, system) for system in check.systems]


def _survival_finding(
    evidence: Evidence, check: SurvivesFault, workload: str, system: str
) -> Finding:
    subject = f"{system} {'continues' if check.completes else 'stops'} when a worker is killed"
    completed: dict[str, bool] = {}
    conditions = ""
    for run in evidence.runs:
        fault, report = run.record.run.fault, run.record.fault_report()
        is_killed = fault is not None and (fault.kind, fault.target) == ("kill", "worker")
        if is_killed and report and (run.system, run.setting.workload) == (system, workload):
            outcome = OUTCOME_BY_END_REASON[report.end_reason]
            completed[run.record.folder.name] = outcome == "completes"
            conditions = conditions or run.setting.description()
    if not completed:
        reason = f"no runs of {system} on {workload} lost a worker"
        return not_testable_finding(check, subject, workload, reason)
    as_claimed = sum(value is check.completes for value in completed.values())
    verdict: Verdict = "not settled" if as_claimed else "reversed"
    if as_claimed == len(completed):
        verdict = "reproduced"
    return Finding(
        subject,
        workload,
        verdict,
        reason=f"as claimed in {as_claimed} of {len(completed)} runs",
        conditions=conditions,
        records=tuple(completed),
    )


def learns(evidence: Evidence, check: Learns, workload: str) -> list[Finding]:
    """Count the runs that learned anything, at each number of workers of the rule."""
    verb = "learns" if check.learns else "fails to learn"
    subject = f"{check.system} {verb} at learning rate {check.learning_rate:g}"
    by_workers: dict[int, list[MeasuredRun]] = {}
    for run in evidence.runs:
        if _matches_learning_rule(run, check, workload):
            by_workers.setdefault(run.setting.workers, []).append(run)
    if by_workers:
        return [_learning_finding(check, subject, runs) for _, runs in sorted(by_workers.items())]
    reason = f"no runs of {check.system} on {workload} with {check.batch} examples per worker, "
    reason += f"learning rate {check.learning_rate:g} and {_worker_range(check)}"
    return [not_testable_finding(check, subject, workload, reason)]


def _matches_learning_rule(run: MeasuredRun, check: Learns, workload: str) -> bool:
    setting = run.setting
    return (
        run.is_usable
        and run.system == check.system
        and setting.workload == workload
        and setting.batch == check.batch
        and run.record.run.workload.optimizer.learning_rate == check.learning_rate
        and check.min_workers <= setting.workers <= check.max_workers
        and run.record.result.test_accuracy is not None
    )


def _learning_finding(check: Learns, subject: str, runs: Sequence[MeasuredRun]) -> Finding:
    """Estimate the fraction of runs that learned, with the interval of Clopper and Pearson (1934).

    The claim is that most runs learn, or that most fail to.
    """
    learned = sum((run.record.result.test_accuracy or 0.0) > LEARNED_ACCURACY for run in runs)
    interval = scipy.stats.binomtest(learned, len(runs)).proportion_ci(0.95, method="exact")
    low, high = float(interval.low), float(interval.high)
    verdict: Verdict = "not settled"
    if low > 0.5 or high < 0.5:
        verdict = "reproduced" if (low > 0.5) is check.learns else "reversed"
    return Finding(
        subject,
        runs[0].setting.workload,
        verdict,
        expect="above" if check.learns else "below",
        threshold=0.5,
        measured=Estimate(learned / len(runs), low, high, 0.95, len(runs)),
        reason=f"{learned} of {len(runs)} runs learned",
        conditions=runs[0].setting.description(),
        records=tuple(run.record.folder.name for run in runs),
    )


def _worker_range(check: Learns) -> str:
    if check.min_workers == check.max_workers:
        return f"{check.min_workers} workers"
    if check.min_workers > 1:
        return f"at least {check.min_workers} workers"
    return f"at most {check.max_workers} workers"


def not_testable(_: Evidence, check: NotTestable, workload: str) -> list[Finding]:
    """Return the reason why no experiment here can decide the claim."""
    return [not_testable_finding(check, "outside the scope", workload, check.reason)]
