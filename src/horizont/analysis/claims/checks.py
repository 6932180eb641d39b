"""One function per kind of rule, named like it; each returns findings, the parts of a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from horizont.analysis.claims import rules
from horizont.analysis.claims.evidence import Comparison, Evidence
from horizont.analysis.claims.findings import Finding, finding
from horizont.analysis.claims.observations import Observation, Setting
from horizont.analysis.claims.publications import published_seconds
from horizont.analysis.claims.quantities import quantity_label
from horizont.config.topology import Link
from horizont.statistics.intervals import interval_at_level, median, paired_ratio

#: The limits of the rate of a link in the settings, in 10^6 bits per second.
SLOWEST_MBIT, FASTEST_MBIT = 1.0, 100_000.0


def ratio(evidence: Evidence, check: rules.Ratio, workload: str) -> list[Finding]:
    """Compare the quantities of two systems in the same setting."""
    over, under = check.over, check.under
    subject = f"{quantity_label(check.quantity)}, {over.label()} over {under.label()}"
    point = rules.CurvePoint(workload=workload)
    comparisons = [
        Comparison(setting.description(), [(over, setting, True), (under, setting, False)])
        for setting in evidence.settings(check, over, point)
    ]
    if check.published is None:
        check = check.model_copy(update={"published": _published_ratio(check, workload)})
    reason = evidence.missing_reason(check, workload, [over, under])
    return _decide(evidence, check, subject, workload, comparisons, missing_reason=reason)


def ordering(evidence: Evidence, check: rules.Ordering, workload: str) -> list[Finding]:
    """Compare each of the other systems with the one claimed to be lowest or highest."""
    findings = []
    for other in check.others:
        over, under = (other, check.lowest) if check.lowest else (check.highest, other)
        common = check.model_dump(include=set(rules.Check.model_fields) - {"workloads"})
        sides = {"over": over, "under": under, "threshold": 1.0}
        pair = rules.Ratio.model_validate({**common, "kind": "ratio", **sides})
        findings += ratio(evidence, pair, workload)
    return findings


def trend(evidence: Evidence, check: rules.Trend, workload: str) -> list[Finding]:
    """Compare a system's quantity at two points, per worker if the rule says so."""
    subject = f"{quantity_label(check.quantity)} of {check.system.label()}, {_range_label(check)}"
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
    subject = f"{quantity_label(check.quantity)}, {over.label()} over {under.label()}, "
    subject += _range_label(check)
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
    subject = f"{quantity_label(check.quantity)} of {check.system.label()}"
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
        measured = evidence.measure(check, comparison)
        if measured is not None:
            findings.append(build(measured=measured))
            if not every:
                break
    return findings or [build("not testable", reason=missing_reason)]


def _published_ratio(check: rules.Ratio | rules.Growth, workload: str) -> float | None:
    """Compute the ratio of a check from the published table; None if a time is missing."""
    value = published_seconds(workload, check.over.system, check.quantity)
    value /= published_seconds(workload, check.under.system, check.quantity)
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
    items = evidence.usable(check.quantity, check.system, workload)
    if items:
        most, wanted = max(item.setting.workers for item in items), check.end.workers
        reached = f"runs of {check.system.label()} on {workload} reach {most} workers"
        if isinstance(wanted, str) and most < check.end.min_workers:
            return f"{reached} only"
        if isinstance(wanted, int) and check.quantity == "examples_per_s":
            wanted = max(wanted, check.end.min_workers)
            if most < wanted:
                return f"{reached}, not {wanted}"
    return evidence.missing_reason(check, workload, [check.system])


def half_rate(evidence: Evidence, check: rules.HalfRate, workload: str) -> list[Finding]:
    """Estimate the link rate below which communication is half of the step.

    From the runs at two rates or more, block by block, with the time of communication fitted as a
    constant plus bytes over rate, and the mean of the rest of the step.
    """
    side = check.system
    subject = f"link rate below which communication is half of the step of {side.label()}, Mbit/s"
    build = partial(finding, check, subject, workload)
    reason = evidence.missing_reason(check, workload, [side])
    for settings in _groups_by_rate(evidence, check, workload):
        columns = [evidence.by_block(check.quantity, side, setting) for setting in settings]
        blocks = sorted(set.intersection(*(set(column) for column in columns)))
        rates = [float(setting.link.rate_mbit or 0) for setting in settings]
        if len(settings) < 2 or not blocks:
            reason = f"runs of {side.label()} on {workload} at {len(rates)} limited link rate, "
            reason += "two are needed"
            continue
        items = [[column[block][0] for column in columns] for block in blocks]
        half = [_half_rate(rates, row) for row in items]
        estimate = paired_ratio(half, [1.0] * len(half), interval_at_level)
        conditions = settings[0]._replace(link=Link()).description()
        for rate, column in zip(rates, columns, strict=True):
            fraction = median([column[block][1] for block in blocks])
            conditions += f", {fraction:.0%} at {rate:g} Mbit/s"
        measured = evidence.measured(check, estimate, conditions, list(chain(*items)))
        return [build(measured=measured)]
    return [build("not testable", reason=reason)]


def _groups_by_rate(
    evidence: Evidence, check: rules.HalfRate, workload: str
) -> Iterator[list[Setting]]:
    """Yield the settings that differ in the rate of their links only, the slowest link first."""
    groups: dict[Setting, list[Setting]] = {}
    for setting in evidence.settings(check, check.system, rules.CurvePoint(workload=workload)):
        if setting.link == Link(rate_mbit=setting.link.rate_mbit) and setting.link.rate_mbit:
            groups.setdefault(setting._replace(link=Link()), []).append(setting)
    for settings in groups.values():
        yield sorted(settings, key=lambda setting: setting.link.rate_mbit or 0)


def _half_rate(rates: Sequence[float], items: Sequence[Observation]) -> float:
    """Solve the fitted times of one block for the rate, within the limits of a link."""
    network_s = np.array([item.read("network_s") for item in items])
    fraction = np.array([item.read("network_fraction") for item in items])
    other_s = float(np.mean(network_s * (1 / fraction - 1)))
    slope, constant_s = np.polyfit(1 / np.array(rates), network_s, 1)
    if other_s <= constant_s:
        return FASTEST_MBIT
    return float(np.clip(slope / (other_s - constant_s), SLOWEST_MBIT, FASTEST_MBIT))


def not_testable(_: Evidence, check: rules.NotTestable, workload: str) -> list[Finding]:
    """Return the reason why no experiment here can decide the claim."""
    return [finding(check, "outside the scope", workload, "not testable", reason=check.reason)]
