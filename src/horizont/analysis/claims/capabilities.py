"""The kinds of rules that ask whether something happens at all."""

from __future__ import annotations

from collections.abc import Sequence

import scipy  # its parts are loaded when they are used

from horizont.analysis.claims.decide import Verdict
from horizont.analysis.claims.evidence import Evidence
from horizont.analysis.claims.findings import Finding, untestable
from horizont.analysis.claims.rules import Learning, Outside, Survival
from horizont.analysis.claims.seen import Seen
from horizont.analysis.incidents import OUTCOMES
from horizont.stats import Estimate

#: Test accuracy beyond which a network of ten classes has learned something: twice chance.
LEARNED = 0.2


def survival(evidence: Evidence, check: Survival, workload: str) -> list[Finding]:
    """Look what became of a training when one of its workers was killed."""
    return [_fate(evidence, check, workload, system) for system in check.systems]


def _fate(evidence: Evidence, check: Survival, workload: str, system: str) -> Finding:
    what = f"{system} {'goes on' if check.goes_on else 'stops'} when a worker is killed"
    own = [seen for seen in evidence.runs if seen.system == system and _lost_a_worker(seen)]
    own = [seen for seen in own if seen.setting.workload == workload]
    fates = {seen.record.folder.name: _went_on(seen) for seen in own}
    known = {name: went for name, went in fates.items() if went is not None}
    if not known:
        reason = f"no runs of {system} on {workload} lost a worker"
        return untestable(check, what, workload, reason)
    as_claimed = sum(went is check.goes_on for went in known.values())
    return Finding(
        what,
        workload,
        _unanimous(as_claimed, len(known)),
        reason=f"as claimed in {as_claimed} of {len(known)} runs",
        conditions=own[0].setting.words(),
        records=tuple(known),
    )


def _lost_a_worker(seen: Seen) -> bool:
    incident = seen.record.run.incident
    return incident is not None and (incident.kind, incident.role) == ("killed", "worker")


def _went_on(seen: Seen) -> bool | None:
    found = seen.record.aftermath()
    return None if found is None else OUTCOMES[found.over] == "goes on"


def _unanimous(as_claimed: int, runs: int) -> Verdict:
    """Decide what should be the same in every run."""
    if as_claimed == runs:
        return "reproduced"
    return "not settled" if as_claimed else "reversed"


def learning(evidence: Evidence, check: Learning, workload: str) -> list[Finding]:
    """Count the runs that learned anything, at each number of workers that the rule is about."""
    said = "learns" if check.learns else "fails to learn"
    what = f"{check.system} {said} at learning rate {check.learning_rate:g}"
    by_workers: dict[int, list[Seen]] = {}
    for seen in evidence.runs:
        if _is_about(seen, check, workload):
            by_workers.setdefault(seen.setting.workers, []).append(seen)
    if not by_workers:
        reason = f"no runs of {check.system} on {workload} with {check.batch} examples a worker, "
        reason += f"learning rate {check.learning_rate:g} and {_range(check)}"
        return [untestable(check, what, workload, reason)]
    return [_learned(check, what, workload, own) for _, own in sorted(by_workers.items())]


def _is_about(seen: Seen, check: Learning, workload: str) -> bool:
    setting, run = seen.setting, seen.record.run
    return (
        seen.usable
        and seen.system == check.system
        and setting.workload == workload
        and setting.batch == check.batch
        and run.workload.optimizer.learning_rate == check.learning_rate
        and check.least_workers <= setting.workers <= check.most_workers
        and seen.record.result.test_accuracy is not None
    )


def _learned(check: Learning, what: str, workload: str, own: Sequence[Seen]) -> Finding:
    learned = sum((seen.record.result.test_accuracy or 0.0) > LEARNED for seen in own)
    share = _share(learned, len(own))
    return Finding(
        what,
        workload,
        _decide_share(share, check.learns),
        expect="above" if check.learns else "below",
        threshold=0.5,
        found=share,
        reason=f"{learned} of {len(own)} runs learned",
        conditions=own[0].setting.words(),
        records=tuple(seen.record.folder.name for seen in own),
    )


def _share(count: int, n: int) -> Estimate:
    """Estimate a share of runs with the exact interval of Clopper and Pearson (1934)."""
    interval = scipy.stats.binomtest(count, n).proportion_ci(0.95, method="exact")
    return Estimate(count / n, float(interval.low), float(interval.high), 0.95, n)


def _decide_share(share: Estimate, learns: bool) -> Verdict:
    if share.low > 0.5:
        return "reproduced" if learns else "reversed"
    if share.high < 0.5:
        return "reversed" if learns else "reproduced"
    return "not settled"


def _range(check: Learning) -> str:
    least, most = check.least_workers, check.most_workers
    if least == most:
        return f"{least} workers"
    return f"at least {least} workers" if least > 1 else f"at most {most} workers"


def outside(evidence: Evidence, check: Outside, workload: str) -> list[Finding]:
    """Say what no experiment here can settle."""
    del evidence
    return [untestable(check, "outside of this project", workload, check.reason)]
