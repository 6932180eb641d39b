"""The kinds of rules that compare quantities; each gives findings, the parts of a verdict."""

from __future__ import annotations

from horizont.analysis.claims.evidence import Evidence
from horizont.analysis.claims.figures import Side, curve, figure
from horizont.analysis.claims.findings import Finding, name_of, told, untestable
from horizont.analysis.claims.published import published_seconds
from horizont.analysis.claims.rules import At, Growth, Ordering, Ratio, Share, Trend
from horizont.stats import median_interval


def ratio(evidence: Evidence, check: Ratio, workload: str) -> list[Finding]:
    """Hold one system's quantity against another's in the same setting."""
    what = f"{name_of(check.quantity)}, {check.over} over {check.under}"
    published = check.published
    if published is None:
        published = _published_ratio(check.quantity, workload, check.over, check.under)
    findings = []
    for setting in evidence.settings(check, check.over, At(workload=workload)):
        sides = [Side(check.over, setting, True), Side(check.under, setting, False)]
        found = figure(evidence, check.quantity, sides)
        if found is not None:
            findings.append(
                told(check, what, workload, found, published=published, conditions=setting.words())
            )
    if not findings:
        reason = evidence.why_not(check, workload, [check.over, check.under])
        return [untestable(check, what, workload, reason, published)]
    return findings if check.every else findings[:1]


def ordering(evidence: Evidence, check: Ordering, workload: str) -> list[Finding]:
    """Hold each of the other systems against the one that is said to be first or last."""
    findings = []
    for other in check.others:
        over, under = (other, check.first) if check.first else (check.last, other)
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
    what = f"{name_of(check.quantity)} of {check.system}, {_points(check.start, check.end)}"
    if check.each:
        what += ", for each worker"
    for start, end in curve(evidence, check, check.system, workload):
        sides = [Side(check.system, end, True), Side(check.system, start, False)]
        scale = start.workers / end.workers if check.each else 1.0
        found = figure(evidence, check.quantity, sides, scale)
        if found is not None:
            words = f"{start.words()}; then {end.words()}"
            return [told(check, what, workload, found, published=check.published, conditions=words)]
    reason = _why_no_point(evidence, check, workload)
    return [untestable(check, what, workload, reason, check.published)]


def growth(evidence: Evidence, check: Growth, workload: str) -> list[Finding]:
    """Hold the ratio of two systems at one point against that at another."""
    what = f"{name_of(check.quantity)}, {check.over} over {check.under}, "
    what += _points(check.start, check.end)
    published = check.published
    if published is None:
        published = _published_growth(check)
    for start, end in curve(evidence, check, check.over, workload):
        sides = [
            Side(check.over, end, True),
            Side(check.under, end, False),
            Side(check.over, start, False),
            Side(check.under, start, True),
        ]
        found = figure(evidence, check.quantity, sides)
        if found is not None:
            words = f"{start.words()}; then {end.words()}"
            return [told(check, what, end.workload, found, published=published, conditions=words)]
    place = workload or check.end.workload
    reason = evidence.why_not(check, place, [check.over, check.under])
    return [untestable(check, what, place, reason, published)]


def share(evidence: Evidence, check: Share, workload: str) -> list[Finding]:
    """Hold a share of one system against a threshold."""
    what = f"{name_of(check.quantity)} of {check.system}"
    for setting in evidence.settings(check, check.system, At(workload=workload)):
        values = evidence.values(check.system, setting, check.quantity)
        if values.by_block:
            found = median_interval(list(values.by_block.values())), tuple(values.records.values())
            return [
                told(
                    check,
                    what,
                    workload,
                    found,
                    published=check.published,
                    conditions=setting.words(),
                )
            ]
    reason = evidence.why_not(check, workload, [check.system])
    return [untestable(check, what, workload, reason)]


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


def _points(start: At, end: At) -> str:
    return f"from {_point(start)} to {_point(end)}"


def _point(at: At) -> str:
    said = [at.workload] if at.workload else []
    if at.workers is not None:
        said.append("1 worker" if at.workers == 1 else f"{at.workers} workers")
    if at.batch is not None:
        said.append(f"batch {at.batch}" if isinstance(at.batch, int) else f"the {at.batch} batch")
    return ", ".join(said)


def _why_no_point(evidence: Evidence, check: Trend, workload: str) -> str:
    own = [s for s in evidence.runs if s.system == check.system and s.usable]
    counts = {s.setting.workers for s in own if s.setting.workload == workload}
    if check.quantity == "examples_per_s" and counts and isinstance(check.end.workers, int):
        wanted = max(check.end.workers, check.end.least_workers)
        if max(counts) < wanted:
            return f"runs of {check.system} on {workload} reach {max(counts)} workers, not {wanted}"
    if isinstance(check.end.workers, str) and counts and max(counts) < check.end.least_workers:
        return f"runs of {check.system} on {workload} reach {max(counts)} workers only"
    return evidence.why_not(check, workload, [check.system])
