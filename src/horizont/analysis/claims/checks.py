"""Checks of times and other quantities; each returns findings, the parts of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, islice

import numpy as np

from horizont.analysis.claims import rules
from horizont.analysis.claims.evidence import Comparison, Evidence
from horizont.analysis.claims.findings import Finding, finding
from horizont.analysis.claims.observations import Observation, Setting, speed_share
from horizont.analysis.claims.publications import published_seconds
from horizont.analysis.claims.quantities import quantity_label
from horizont.analysis.claims.rules import CurvePoint
from horizont.config.topology import Link
from horizont.statistics.intervals import interval_at_level, median, paired_ratio
from horizont.wording import counted

#: The limits of the rate of a link in the settings, in 10^6 bits per second.
SLOWEST_MBIT, FASTEST_MBIT = 1.0, 100_000.0


def contrast(evidence: Evidence, check: rules.Contrast, workload: str) -> list[Finding]:
    """Compare two systems, two points of a curve or both; or one quantity with a threshold.

    The first comparison that was measured decides, or all of them if the rule says so.
    """
    subject, sides = quantity_label(check.quantity), [check.over]
    if check.under is None:
        subject += f" of {check.over.label()}"
    else:
        subject += f", {check.over.label()} over {check.under.label()}"
        sides.append(check.under)
        if check.published is None:
            check = check.model_copy(update={"published": _published_factor(check, workload)})
    if check.start is None or check.end is None:
        comparisons = [
            Comparison(setting.description(), _factors(sides, setting))
            for setting in evidence.settings(check, check.over, CurvePoint(workload=workload))
        ]
    else:
        subject += f", from {_point_label(check.start)} to {_point_label(check.end)}"
        subject += ", per worker" if check.per_worker else ""
        subject += ", relative to one worker" if check.speedup else ""
        points = evidence.paired_points(check, (check.start, check.end), workload)
        comparisons = [_between_points(check, sides, start, end) for start, end in points]
        workload = workload or check.end.workload
    build = partial(finding, check, subject, workload)
    estimates = (evidence.measure(check, comparison) for comparison in comparisons)
    found = (build(measured=measured) for measured in estimates if measured is not None)
    if findings := list(found if check.all_settings else islice(found, 1)):
        return findings
    reason = _too_few_workers(evidence, check, workload, sides)
    reason = reason or evidence.missing_reason(check, workload, sides, paired=bool(comparisons))
    return [build("not testable", reason=reason)]


def _between_points(
    check: rules.Contrast, sides: Sequence[rules.Side], start: Setting, end: Setting
) -> Comparison:
    factors = [*_factors(sides, end), *_factors(sides, start, inverse=True)]
    if check.speedup:
        factors += [(side, s._replace(workers=1), not above) for side, s, above in factors]
    conditions = f"{start.description()}; then {end.description()}"
    scale = start.workers / end.workers if check.per_worker else 1.0
    return Comparison(conditions, factors, scale)


def _factors(
    sides: Sequence[rules.Side], setting: Setting, *, inverse: bool = False
) -> list[tuple[rules.Side, Setting, bool]]:
    """Return the factors of the first side over the second, if there is one, in a setting."""
    return [(side, setting, (side is sides[0]) != inverse) for side in sides]


def ordering(evidence: Evidence, check: rules.Ordering, workload: str) -> list[Finding]:
    """Compare each of the other systems with the one claimed to be lowest or highest."""
    findings = []
    for other in check.others:
        over, under = (other, check.lowest) if check.lowest else (check.highest, other)
        common = check.model_dump(include=set(rules.Check.model_fields) - {"workloads"})
        sides = {"over": over, "under": under, "threshold": 1.0}
        pair = rules.Contrast.model_validate({**common, "kind": "ratio", **sides})
        findings += contrast(evidence, pair, workload)
    return findings


def _published_factor(check: rules.Contrast, workload: str) -> float | None:
    """Compute the factor of a check from the published table; None if a time is missing."""
    if check.start is None or check.end is None:
        return _published_ratio(check, workload)
    start, end = (_published_ratio(check, p.workload) for p in (check.start, check.end))
    return end / start if start and end else None


def _published_ratio(check: rules.Contrast, workload: str) -> float | None:
    assert check.under is not None
    value = published_seconds(workload, check.over.system, check.quantity)
    value /= published_seconds(workload, check.under.system, check.quantity)
    return value if value > 0 else None


def _point_label(point: CurvePoint) -> str:
    labels = [point.workload] if point.workload else []
    if point.workers is not None:
        labels.append(counted(point.workers, "worker"))
    if point.batch is not None:
        is_number = isinstance(point.batch, int)
        labels.append(f"batch {point.batch}" if is_number else f"the {point.batch} batch")
    return ", ".join(labels)


def _too_few_workers(
    evidence: Evidence, check: rules.Contrast, workload: str, sides: Sequence[rules.Side]
) -> str:
    """Return which system has fewer workers than the rule names; empty if none has."""
    point = check.end or CurvePoint(workers=check.workers, batch=check.batch)
    wanted = point.workers if isinstance(point.workers, int) else 0
    for side in sides:
        workers = [
            item.setting.workers
            for item in evidence.usable(check.quantity, side, workload)
            if point.batch in ("min", "max", None, item.setting.batch)
        ]
        if workers and max(workers) < max(wanted, point.min_workers):
            batch = f" with batch {point.batch}" if isinstance(point.batch, int) else ""
            reached = f"runs of {side.label()} on {workload}{batch} reach {max(workers)} workers"
            return f"{reached}, not {wanted}" if wanted else f"{reached} only"
    return ""


def half_rate(evidence: Evidence, check: rules.HalfRate, workload: str) -> list[Finding]:
    """Estimate the link rate below which communication is half of the step.

    From the runs at two rates or more, block by block, with the time of communication fitted as a
    constant plus bytes over rate, and the mean of the rest of the step. On hosts in slow motion the
    rate is that of hosts at full speed, whose links are as much faster as their CPUs.
    """
    side = check.system
    subject = f"link rate below which communication is half of the step of {side.label()}, Mbit/s"
    build = partial(finding, check, subject, workload)
    reason = evidence.missing_reason(check, workload, [side])
    by_rate: dict[Setting, list[Setting]] = {}
    for setting in evidence.settings(check, side, CurvePoint(workload=workload)):
        rate_mbit = setting.link.rate_mbit
        if rate_mbit and setting.link == Link(rate_mbit=rate_mbit):
            by_rate.setdefault(setting._replace(link=Link()), []).append(setting)
    for unlimited, settings in by_rate.items():
        settings.sort(key=lambda setting: setting.link.rate_mbit or 0)
        columns = [evidence.by_block(check.quantity, side, setting) for setting in settings]
        blocks = sorted(set.intersection(*(set(column) for column in columns)))
        rates = [float(setting.link.rate_mbit or 0) for setting in settings]
        if len(settings) < 2 or not blocks:
            reason = f"runs of {side.label()} on {workload} at {len(rates)} limited link rate, "
            reason += "two are needed"
            continue
        items = [[column[block][0] for column in columns] for block in blocks]
        share = min(1.0, speed_share(unlimited))
        half = [_half_rate(rates, row) / share for row in items]
        estimate = paired_ratio(half, [1.0] * len(half), interval_at_level)
        conditions = unlimited.description()
        conditions += f", rates divided by {share:g}" if share < 1 else ""
        for rate, column in zip(rates, columns, strict=True):
            fraction = median([column[block][1] for block in blocks])
            conditions += f", {fraction:.0%} at {rate:g} Mbit/s"
        measured = evidence.measured(check, estimate, conditions, list(chain(*items)))
        return [build(measured=measured)]
    return [build("not testable", reason=reason)]


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
