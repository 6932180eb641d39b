"""Checks of what is learned, and of what a lost worker causes: the counts of runs decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isinf
from statistics import mean
from typing import Literal

from horizont.analysis.claims import rules
from horizont.analysis.claims.evidence import Evidence, Measured
from horizont.analysis.claims.findings import Finding, Verdict, finding, too_few
from horizont.analysis.claims.observations import Observation
from horizont.analysis.faults import kills_worker, training_continues
from horizont.records.record import Record
from horizont.statistics.comparison import MIN_BLOCKS
from horizont.statistics.intervals import proportion_bounds

#: Test accuracy beyond which a network of ten classes has learned something: twice chance.
LEARNED_ACCURACY = 0.2

LearningOutcome = Literal["learned", "lost", "failed"]

#: What a finding has besides its verdict only where a number was measured.
_NUMBERS = ("value", "low", "high", "level")


def survives_fault(evidence: Evidence, check: rules.SurvivesFault, workload: str) -> list[Finding]:
    """Test whether training continues to its end when one of its workers is killed."""
    return [_survival_finding(evidence, check, workload, side.system) for side in check.systems]


def _survival_finding(
    evidence: Evidence, check: rules.SurvivesFault, workload: str, system: str
) -> Finding:
    subject = f"{system} {'continues' if check.completes else 'stops'} when a worker is killed"
    build = partial(finding, check, subject, workload, unit="runs")
    killed = [
        (item, training_continues(item.record.run, report))
        for item in evidence.observations
        if item.record is not None
        and (item.system, item.setting.workload) == (system, workload)
        and kills_worker(item.record.run)
        and (report := item.record.fault_report())
    ]
    if not killed:
        reason = f"no runs of {system} on {workload} lost a worker"
        return build("not testable", reason=reason)
    items = [item for item, _ in killed]
    as_claimed = sum(continues is check.completes for _, continues in killed)
    verdict: Verdict = "not settled" if as_claimed else "reversed"
    if as_claimed == len(items):
        verdict = "reproduced"
    measured = _count(evidence, check, as_claimed, items)
    return _counted(build, verdict, measured, f"as claimed in {as_claimed} of {len(items)} runs")


def _counted(
    build: Callable[..., Finding], verdict: Verdict, measured: Measured, counted: str
) -> Finding:
    """Build a finding without a number: the runs decide, unless there are too few of them."""
    few_runs = too_few(measured.estimate.n, "runs")
    reason = ", ".join(filter(None, [counted, few_runs]))
    result = build("not settled" if few_runs else verdict, measured=measured, reason=reason)
    return {**result, **dict.fromkeys(_NUMBERS)}


def completes(evidence: Evidence, check: rules.Completes, workload: str) -> list[Finding]:
    """Count the runs that hosts completed which a command has started, and sampled."""
    return [_completion_finding(evidence, check, workload, side.system) for side in check.systems]


def _completion_finding(
    evidence: Evidence, check: rules.Completes, workload: str, system: str
) -> Finding:
    subject = f"{system} completes on hosts started by {check.command}"
    build = partial(finding, check, subject, workload, unit="runs")
    items = [
        item
        for item in evidence.observations
        if item.record is not None
        and (item.system, item.setting.workload) == (system, workload)
        and item.record.run.topology.options.get("command") == check.command
        and item.record.result.status != "skipped"
    ]
    if not items:
        reason = f"no runs of {system} on {workload} on hosts started by {check.command}"
        return build("not testable", reason=reason)
    done = sum(_completed_sampled(item.record) for item in items if item.record is not None)
    verdict: Verdict = "reproduced" if done == len(items) else "not reproduced"
    # One machine stands for the cluster: what is shown is that it works, not how fast.
    measured = _count(evidence, check, done, items)._replace(evidence="D")
    return _counted(build, verdict, measured, f"{done} of {len(items)} runs completed")


def _completed_sampled(record: Record) -> bool:
    """Whether a run completed and every host was sampled."""
    if not record.ok or not record.has_file("samples.parquet"):
        return False
    sampled = set(record.samples()["host"].to_pylist())
    return sampled >= set(record.run.topology.all_hosts)


def learns(evidence: Evidence, check: rules.Learns, workload: str) -> list[Finding]:
    """Count the runs that learned anything, at each number of workers of the rule."""
    verb = "learns" if check.learns else "fails to learn"
    subject = f"{check.system.label()} {verb} at learning rate {check.learning_rate:g}"
    groups = [
        items
        for workers, items in _by_workers(evidence, check, check.learning_rate, workload).items()
        if check.min_workers <= workers <= check.max_workers
    ]
    if groups:
        return [_learning_finding(evidence, check, subject, workload, items) for items in groups]
    reason = f"no runs of {check.system.label()} on {workload} with {check.batch} examples per "
    reason += f"worker, learning rate {check.learning_rate:g} and {_worker_range(check)}"
    return [finding(check, subject, workload, "not testable", reason=reason, unit="runs")]


def _learning_finding(
    evidence: Evidence,
    check: rules.Learns,
    subject: str,
    workload: str,
    items: Sequence[Observation],
) -> Finding:
    """Estimate the fraction of runs that behaved as claimed; the claim is that most of them do."""
    counts = _outcomes(items)
    reason = f"{counts['learned']} of {len(items)} runs learned"
    reason += f", {counts['lost']} more lost it again" if counts["lost"] else ""
    measured = _count(evidence, check, counts["learned" if check.learns else "failed"], items)
    verdict = _majority(items, learned=check.learns)
    reason = _too_few_seeds(items) or reason
    build = partial(finding, check, subject, workload, unit="runs")
    result = build(verdict, measured=measured, reason=reason)
    return {**result, "expect": "above", "threshold": 0.5}


def _outcomes(items: Sequence[Observation]) -> Counter[LearningOutcome]:
    return Counter(learning_outcome(item.read) for item in items)


def learning_outcome(read: Callable[[str], float]) -> LearningOutcome:
    """Return whether a run learned, by its quantities.

    It ``learned``, ``lost`` it again (its best accuracy exceeds the limit, but not its last), or
    ``failed`` to learn.
    """
    if read("final_accuracy") > LEARNED_ACCURACY:
        return "learned"
    return "lost" if read("best_accuracy") > LEARNED_ACCURACY else "failed"


def _majority(items: Sequence[Observation], *, learned: bool) -> Verdict:
    """Test whether most runs learned, or failed to, by comparing their fraction with one half.

    A run whose accuracy exceeded the limit and fell below it again did neither.
    """
    if _too_few_seeds(items):
        return "not settled"
    outcomes: tuple[LearningOutcome, ...] = (
        ("learned", "failed") if learned else ("failed", "learned")
    )
    as_claimed, opposite = (
        proportion_bounds(_outcomes(items)[outcome], len(items)) for outcome in outcomes
    )
    if as_claimed.low > 0.5:
        return "reproduced"
    if opposite.low > 0.5:
        return "reversed"
    return "not reproduced" if as_claimed.high < 0.5 else "not settled"


def _too_few_seeds(items: Sequence[Observation]) -> str:
    """Return why runs are no sample; runs of one seed repeat one training."""
    if reason := too_few(len(items), "runs"):
        return reason
    seeds = len({item.seed for item in items})
    return f"{len(items)} runs of only {seeds} seeds" if seeds < MIN_BLOCKS else ""


def _count(
    evidence: Evidence, check: rules.Check, count: int, items: Sequence[Observation]
) -> Measured:
    # Faults are injected in several experiments.
    conditions = "; ".join(dict.fromkeys(item.setting.description() for item in items))
    records = [item.record for item in items if item.record is not None]
    recorded = [record.updates() for record in records if record.run.record_updates != "none"]
    staleness = [value for table in recorded for value in table["staleness"].to_pylist()]
    if staleness:
        conditions += f", mean staleness {mean(staleness):.2g}"
    return evidence.measured(check, proportion_bounds(count, len(items)), conditions, items)


def _by_workers(
    evidence: Evidence,
    check: rules.Learns | rules.LargestTrainable,
    learning_rate: float | None,
    workload: str,
) -> dict[int, list[Observation]]:
    """Group the runs of a learning rate by workers; of several settings the one with most runs."""
    side, check = check.system, check.model_copy(update={"learning_rate": learning_rate})
    groups: dict[int, list[Observation]] = {}
    for setting in evidence.settings(check, side, rules.CurvePoint(workload=workload)):
        items = [item for item, _ in evidence.by_block(check.quantity, side, setting).values()]
        if len(items) > len(groups.get(setting.workers, [])):
            groups[setting.workers] = items
    return dict(sorted(groups.items()))


def largest_trainable(
    evidence: Evidence, check: rules.LargestTrainable, workload: str
) -> list[Finding]:
    """Compare the largest number of workers that learns with that at the largest learning rate."""
    subject = f"largest number of workers with which {check.system.label()} learns"
    groups = {rate: _by_workers(evidence, check, rate, workload) for rate in check.learning_rates}
    missing = [f"{rate:g}" for rate, by_workers in groups.items() if not by_workers]
    build = partial(finding, check, subject, workload, unit="runs")
    if missing:
        reason = f"no runs of {check.system.label()} on {workload} at learning rate {missing[0]}"
        return [build("not testable", reason=reason)]
    ranges = {rate: _trainable_range(by_workers) for rate, by_workers in groups.items()}
    (least, most), *others = ranges.values()
    verdict: Verdict = "not settled"
    if all(low > most for low, _ in others):
        verdict = "reproduced"
    elif any(high <= least for _, high in others):
        verdict = "not reproduced"
    reason = ", ".join(f"{_range_label(*limits)} at {rate:g}" for rate, limits in ranges.items())
    items = [item for runs in groups.values() for own in runs.values() for item in own]
    measured = _count(evidence, check, 0, items)
    conditions = f"{items[0].setting.experiment}, {check.batch} examples each"
    result = build(verdict, measured=measured._replace(conditions=conditions), reason=reason)
    return [{**result, **dict.fromkeys(_NUMBERS), "expect": "", "threshold": None}]


def _trainable_range(by_workers: dict[int, list[Observation]]) -> tuple[int, float]:
    """Return between which limits the largest number of workers lies that learns.

    0 if none was seen to learn, infinity if no larger number was seen to fail.
    """
    verdicts = {workers: _majority(items, learned=True) for workers, items in by_workers.items()}
    learning = [workers for workers, verdict in verdicts.items() if verdict == "reproduced"]
    low = max(learning, default=0)
    failing = [w for w, verdict in verdicts.items() if verdict in ("reversed", "not reproduced")]
    return low, min((workers - 1 for workers in failing if workers > low), default=inf)


def _range_label(low: int, high: float) -> str:
    if isinf(high):
        return f"at least {low}"
    return f"{low}" if low == high else f"{low} to {high:g}"


def _worker_range(check: rules.Learns) -> str:
    if check.min_workers == check.max_workers:
        return f"{check.min_workers} workers"
    if check.min_workers > 1:
        return f"at least {check.min_workers} workers"
    return f"at most {check.max_workers} workers"
