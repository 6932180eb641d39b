"""Outcomes of injected faults."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd

from horizont.analysis.runs import records_of_system, systems_of
from horizont.records.record import Record
from horizont.records.results import FaultReport, ProcessOutcome

#: Why the launcher stopped waiting -> the outcome of the training.
OUTCOME_BY_END_REASON = {
    "completed": "completes",
    "all_exited": "aborts",
    "stalled": "hangs",
    "timeout": "hangs",
}


def fault_outcomes(records: Sequence[Record]) -> pd.DataFrame:
    """Build the table of injected faults.

    One row per run, in the order of systems and blocks: ``system``, ``fault``, ``block``; ``steps``
    completed by the slowest worker other than the target, of ``planned``; ``detected_after_s``,
    from the fault to the first error in another process, NaN without one, and ``first_error``: that
    error, ``completed`` or ``no error``; ``survivors``, the processes that did not fail;
    ``weight_holders``, the survivors that still hold all weights; ``outcome``: ``completes``,
    ``aborts`` or ``hangs``; ``rejoined``, whether a restarted process took part again; ``reason``
    of a run without a report; ``record``.
    """
    injected = [record for record in records if record.run.fault is not None]
    rows = []
    for record in (
        r for system in systems_of(injected) for r in records_of_system(injected, system)
    ):
        run, report = record.run, record.fault_report()
        assert run.fault is not None
        rows.append(
            {
                "system": run.system.name,
                "fault": run.fault.name,
                "block": run.block,
                "planned": run.steps.total,
                **(
                    {"reason": record.result.reason} if report is None else _outcome(record, report)
                ),
                "record": record.folder.name,
            }
        )
    return pd.DataFrame(rows)


def _outcome(record: Record, report: FaultReport) -> dict[str, Any]:
    failure = report.first_failure
    first_error = "completed" if report.end_reason == "completed" else "no error"
    if failure is not None:
        first_error = failure.error or f"{failure.process} exited without an error message"
    survivors = _survivors(record, report)
    return {
        "steps": _surviving_steps(report),
        "detected_after_s": failure.detected_after_s if failure else nan,
        "first_error": first_error,
        "survivors": ", ".join(outcome.process for outcome in survivors),
        "weight_holders": ", ".join(_weight_holders_left(record, survivors)),
        "outcome": OUTCOME_BY_END_REASON[report.end_reason],
        "rejoined": report.rejoined,
        "reason": "",
    }


def _surviving_steps(report: FaultReport) -> int:
    """Return the steps completed by the slowest worker other than the target.

    A coordinator that counts for its workers is one process; where only the target counts steps,
    its own are returned.
    """
    counted = [p for p in report.processes if p.steps_before is not None and p.incarnation == 1]
    others = [outcome for outcome in counted if outcome.process != report.target] or counted
    return min(((p.steps_before or 0) + (p.steps_after or 0) for p in others), default=0)


def _survivors(record: Record, report: FaultReport) -> list[ProcessOutcome]:
    """List the processes that did not fail; one that is paused for good did not survive."""
    fault = record.run.fault
    assert fault is not None
    lost = fault.kind in ("pause", "disconnect") and fault.duration_s is None
    return [
        outcome
        for outcome in report.processes
        if outcome.outcome in ("completed", "running")
        and not (lost and outcome.process == report.target)
    ]


def _weight_holders_left(record: Record, survivors: Sequence[ProcessOutcome]) -> list[str]:
    """List the survivors that hold all weights: any one worker, or all of the servers."""
    holders = []
    for role in record.run.system.info.weight_holders:
        alive = [p.process for p in survivors if p.role == role and p.incarnation == 1]
        needed = record.run.topology.servers if role == "server" else 1
        if len(alive) >= needed:
            holders += alive
    return holders
