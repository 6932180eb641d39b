"""What came of the incidents: a row a system and incident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from horizont.analysis.runs import system_order
from horizont.records.record import Record
from horizont.records.results import FaultReport, ProcessOutcome


def fault_outcomes(records: Sequence[Record]) -> pd.DataFrame:
    """Build the table of incidents.

    Returns
    -------
    pandas.DataFrame
        A row a run, in the order of systems and of the settings: ``system``, ``fault``,
        ``block``; ``steps`` that the slowest of the untouched had made in the end, and
        ``planned``; ``detected_after_s``, from the incident to the first error elsewhere, NaN if there
        was none, and ``first_error``: that error, ``went on``, or ``hang``; ``survivors``, the processes
        that had not ended badly; ``weight_holders``, who of them still held all weights; ``outcome``:
        ``goes on`` to its end, ``aborts`` or ``hangs``; ``rejoined``, whether a process that was
        started again was taken in; ``reason`` of a run to which nothing could happen; ``record``.
    """
    order = {
        name: place for place, name in enumerate(system_order(r.run.system.name for r in records))
    }
    wanted = [record for record in records if record.run.fault is not None]
    wanted.sort(key=lambda record: (order[record.run.system.name], record.run.block))
    return pd.DataFrame([_fault_row(record) for record in wanted])


def _fault_row(record: Record) -> dict[str, Any]:
    run, found = record.run, record.fault_report()
    assert run.fault is not None
    told = (
        _outcome_columns(record, found) if found is not None else {"reason": record.result.reason}
    )
    return {
        "system": run.system.name,
        "fault": run.fault.name,
        "block": run.block,
        "planned": run.steps.total,
        **told,
        "record": record.folder.name,
    }


def _outcome_columns(record: Record, report: FaultReport) -> dict[str, Any]:
    noticed = report.first_failure
    return {
        "steps": surviving_steps(report),
        "detected_after_s": noticed.detected_after_s if noticed else float("nan"),
        "first_error": _first_error(report),
        "survivors": ", ".join(fate.process for fate in survivors(record, report)),
        "weight_holders": ", ".join(weight_holders_left(record, report)),
        "outcome": OUTCOME_BY_END_REASON[report.end_reason],
        "rejoined": report.rejoined,
        "reason": "",
    }


#: Why the launcher stopped waiting -> what that means for the training.
OUTCOME_BY_END_REASON = {
    "completed": "completes",
    "all_exited": "aborts",
    "stalled": "hangs",
    "timeout": "hangs",
}


def surviving_steps(report: FaultReport) -> int:
    """Tell the steps that the slowest worker beside the victim had made in the end.

    A leading process that counts for its workers is taken as one; where only the victim counts,
    its own steps are told.
    """
    counted = [
        fate for fate in report.processes if fate.steps_before is not None and fate.incarnation == 1
    ]
    others = [fate for fate in counted if fate.process != report.target] or counted
    return min(((f.steps_before or 0) + (f.steps_after or 0) for f in others), default=0)


def _first_error(report: FaultReport) -> str:
    if report.first_failure is not None:
        return report.first_failure.error or f"{report.first_failure.process} ended without a word"
    return "completed" if report.end_reason == "completed" else "no error"


def survivors(record: Record, report: FaultReport) -> list[ProcessOutcome]:
    """List the processes that had not ended badly; one that is frozen for good is none."""
    incident = record.run.fault
    assert incident is not None
    lost = incident.kind in ("pause", "disconnect") and incident.duration_s is None
    return [
        fate
        for fate in report.processes
        if fate.outcome in ("completed", "running") and not (lost and fate.process == report.target)
    ]


def weight_holders_left(record: Record, report: FaultReport) -> list[str]:
    """Tell which survivors hold all weights: any one worker, or all of the servers."""
    alive = survivors(record, report)
    names = []
    for role in record.run.system.info.weight_holders:
        own = [fate.process for fate in alive if fate.role == role and fate.incarnation == 1]
        enough = record.run.topology.servers if role == "server" else 1
        if len(own) >= enough:
            names += own
    return names
