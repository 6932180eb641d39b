"""The kinds of rules that compare quantities; each gives findings, the parts of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

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


def ratio(evidence: Evidence, check: Ratio, workload: str) -> list[Finding]:
    """Hold one system's quantity against another's in the same setting."""
    what = f"{quantity_label(check.quantity)}, {check.over} over {check.under}"
    published = check.published
    if published is None:
        published = _published_ratio(check.quantity, workload, check.over, check.under)
    findings = []
    for setting in evidence.settings(check, check.over, CurvePoint(workload=workload)):
        sides = [Factor(check.over, setting, True), Factor(check.under, setting, False)]
        found = paired_quantity(evidence, check.quantity, sides)
        if found is not None:
            findings.append(
                finding_from(
                    check,
                    what,
                    workload,
                    found,
                    published=published,
                    conditions=setting.description(),
                )
            )
    if not findings:
        reason = evidence.missing_reason(check, workload, [check.over, check.under])
        return [not_testable_finding(check, what, workload, reason, published)]
    return findings if check.all_settings else findings[:1]


def ordering(evidence: Evidence, check: Ordering, workload: str) -> list[Finding]:
    """Hold each of the other systems against the one that is said to be first or last."""
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
    """Hold a system's quantity at one point against that at another; for each worker if asked."""
    what = f"{quantity_label(check.quantity)} of {check.system}, {_range_label(check.start, check.end)}"
    if check.per_worker:
        what += ", for each worker"
    for start, end in paired_points(evidence, check, check.system, workload):
        sides = [Factor(check.system, end, True), Factor(check.system, start, False)]
        scale = start.workers / end.workers if check.per_worker else 1.0
        found = paired_quantity(evidence, check.quantity, sides, scale)
        if found is not None:
            words = f"{start.description()}; then {end.description()}"
            return [
                finding_from(
                    check, what, workload, found, published=check.published, conditions=words
                )
            ]
    reason = _missing_point_reason(evidence, check, workload)
    return [not_testable_finding(check, what, workload, reason, check.published)]


def growth(evidence: Evidence, check: Growth, workload: str) -> list[Finding]:
    """Hold the ratio of two systems at one point against that at another."""
    what = f"{quantity_label(check.quantity)}, {check.over} over {check.under}, "
    what += _range_label(check.start, check.end)
    published = check.published
    if published is None:
        published = _published_growth(check)
    for start, end in paired_points(evidence, check, check.over, workload):
        sides = [
            Factor(check.over, end, True),
            Factor(check.under, end, False),
            Factor(check.over, start, False),
            Factor(check.under, start, True),
        ]
        found = paired_quantity(evidence, check.quantity, sides)
        if found is not None:
            words = f"{start.description()}; then {end.description()}"
            return [
                finding_from(
                    check, what, end.workload, found, published=published, conditions=words
                )
            ]
    place = workload or check.end.workload
    reason = evidence.missing_reason(check, place, [check.over, check.under])
    return [not_testable_finding(check, what, place, reason, published)]


def fraction(evidence: Evidence, check: Fraction, workload: str) -> list[Finding]:
    """Hold a share of one system against a threshold."""
    what = f"{quantity_label(check.quantity)} of {check.system}"
    for setting in evidence.settings(check, check.system, CurvePoint(workload=workload)):
        values = evidence.values(check.system, setting, check.quantity)
        if values.by_block:
            found = median_interval(list(values.by_block.values())), tuple(values.records.values())
            return [
                finding_from(
                    check,
                    what,
                    workload,
                    found,
                    published=check.published,
                    conditions=setting.description(),
                )
            ]
    reason = evidence.missing_reason(check, workload, [check.system])
    return [not_testable_finding(check, what, workload, reason)]


def _published_ratio(quantity: str, workload: str, over: str, under: str) -> float | None:
    """Compute a ratio from the published table; None if it does not have it."""
    value = published_seconds(workload, over, quantity)
    value /= published_seconds(workload, under, quantity)
    return value if value > 0 else None


def _published_growth(check: Growth) -> float | None:
    ends = [
        _published_ratio(check.quantity, at.workload, check.over, check.under)
        for at in (check.start, check.end)
    ]
    return ends[1] / ends[0] if ends[0] and ends[1] else None


def _range_label(start: CurvePoint, end: CurvePoint) -> str:
    return f"from {_point_label(start)} to {_point_label(end)}"


def _point_label(point: CurvePoint) -> str:
    said = [point.workload] if point.workload else []
    if point.workers is not None:
        said.append("1 worker" if point.workers == 1 else f"{point.workers} workers")
    if point.batch is not None:
        said.append(
            f"batch {point.batch}" if isinstance(point.batch, int) else f"the {point.batch} batch"
        )
    return ", ".join(said)


def _missing_point_reason(evidence: Evidence, check: Trend, workload: str) -> str:
    own = [s for s in evidence.runs if s.system == check.system and s.usable]
    counts = {s.setting.workers for s in own if s.setting.workload == workload}
    if check.quantity == "examples_per_s" and counts and isinstance(check.end.workers, int):
        wanted = max(check.end.workers, check.end.min_workers)
        if max(counts) < wanted:
            return f"runs of {check.system} on {workload} reach {max(counts)} workers, not {wanted}"
    if isinstance(check.end.workers, str) and counts and max(counts) < check.end.min_workers:
        return f"runs of {check.system} on {workload} reach {max(counts)} workers only"
    return evidence.missing_reason(check, workload, [check.system])


#: Test accuracy beyond which a network of ten classes has learned something: twice chance.
LEARNED_ACCURACY = 0.2


def survives_fault(evidence: Evidence, check: SurvivesFault, workload: str) -> list[Finding]:
    """Look what became of a training when one of its workers was killed."""
    return [_survival_finding(evidence, check, workload, system) for system in check.systems]


def _survival_finding(
    evidence: Evidence, check: SurvivesFault, workload: str, system: str
) -> Finding:
    what = f"{system} {'goes on' if check.completes else 'stops'} when a worker is killed"
    own = [seen for seen in evidence.runs if seen.system == system and _had_worker_killed(seen)]
    own = [seen for seen in own if seen.setting.workload == workload]
    fates = {seen.record.folder.name: _training_completed(seen) for seen in own}
    known = {name: went for name, went in fates.items() if went is not None}
    if not known:
        reason = f"no runs of {system} on {workload} lost a worker"
        return not_testable_finding(check, what, workload, reason)
    as_claimed = sum(went is check.completes for went in known.values())
    return Finding(
        what,
        workload,
        _unanimous_verdict(as_claimed, len(known)),
        reason=f"as claimed in {as_claimed} of {len(known)} runs",
        conditions=own[0].setting.description(),
        records=tuple(known),
    )


def _had_worker_killed(measured_run: MeasuredRun) -> bool:
    incident = measured_run.record.run.fault
    return incident is not None and (incident.kind, incident.target) == ("kill", "worker")


def _training_completed(measured_run: MeasuredRun) -> bool | None:
    found = measured_run.record.fault_report()
    return None if found is None else OUTCOME_BY_END_REASON[found.end_reason] == "completes"


def _unanimous_verdict(as_claimed: int, runs: int) -> Verdict:
    """Decide what should be the same in every run."""
    if as_claimed == runs:
        return "reproduced"
    return "not settled" if as_claimed else "reversed"


def learns(evidence: Evidence, check: Learns, workload: str) -> list[Finding]:
    """Count the runs that learned anything, at each number of workers that the rule is about."""
    said = "learns" if check.learns else "fails to learn"
    what = f"{check.system} {said} at learning rate {check.learning_rate:g}"
    by_workers: dict[int, list[MeasuredRun]] = {}
    for seen in evidence.runs:
        if _matches_learning_rule(seen, check, workload):
            by_workers.setdefault(seen.setting.workers, []).append(seen)
    if not by_workers:
        reason = f"no runs of {check.system} on {workload} with {check.batch} examples a worker, "
        reason += f"learning rate {check.learning_rate:g} and {_worker_range(check)}"
        return [not_testable_finding(check, what, workload, reason)]
    return [_learning_finding(check, what, workload, own) for _, own in sorted(by_workers.items())]


def _matches_learning_rule(measured_run: MeasuredRun, check: Learns, workload: str) -> bool:
    setting, run = measured_run.setting, measured_run.record.run
    return (
        measured_run.usable
        and measured_run.system == check.system
        and setting.workload == workload
        and setting.batch == check.batch
        and run.workload.optimizer.learning_rate == check.learning_rate
        and check.min_workers <= setting.workers <= check.max_workers
        and measured_run.record.result.test_accuracy is not None
    )


def _learning_finding(
    check: Learns, what: str, workload: str, own: Sequence[MeasuredRun]
) -> Finding:
    learned = sum((seen.record.result.test_accuracy or 0.0) > LEARNED_ACCURACY for seen in own)
    share = _estimate_fraction(learned, len(own))
    return Finding(
        what,
        workload,
        _decide_fraction(share, check.learns),
        expect="above" if check.learns else "below",
        threshold=0.5,
        measured=share,
        reason=f"{learned} of {len(own)} runs learned",
        conditions=own[0].setting.description(),
        records=tuple(seen.record.folder.name for seen in own),
    )


def _estimate_fraction(count: int, n: int) -> Estimate:
    """Estimate a share of runs with the exact interval of Clopper and Pearson (1934)."""
    interval = scipy.stats.binomtest(count, n).proportion_ci(0.95, method="exact")
    return Estimate(count / n, float(interval.low), float(interval.high), 0.95, n)


def _decide_fraction(fraction: Estimate, is_claimed: bool) -> Verdict:
    if fraction.low > 0.5:
        return "reproduced" if is_claimed else "reversed"
    if fraction.high < 0.5:
        return "reversed" if is_claimed else "reproduced"
    return "not settled"


def _worker_range(check: Learns) -> str:
    least, most = check.min_workers, check.max_workers
    if least == most:
        return f"{least} workers"
    return f"at least {least} workers" if least > 1 else f"at most {most} workers"


def not_testable(evidence: Evidence, check: NotTestable, workload: str) -> list[Finding]:
    """Say what no experiment here can settle."""
    del evidence
    return [not_testable_finding(check, "outside of this project", workload, check.reason)]
