"""Outcomes of injected faults."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import nan

import pandas as pd

from horizont.analysis.runs import by_system
from horizont.config.faults import FaultSpec
from horizont.config.run import Run
from horizont.records.record import Record
from horizont.records.results import FaultReport, ProcessOutcome

#: The outcome if all steps were trained and the launcher then had to end processes that waited.
_COMPLETES_THEN_HANGS = "completes, then hangs"

#: What may become of a training after a fault, the best first.
OUTCOMES = ("completes", _COMPLETES_THEN_HANGS, "aborts", "hangs")

#: Why the launcher stopped waiting -> the outcome, if steps are missing.
_OUTCOME_OF = {
    "completed": "completes",
    "all_exited": "aborts",
    "stalled": "hangs",
    "timeout": "hangs",
}


def kills_worker(run: Run) -> bool:
    """Whether the fault of a run, if it has one, kills a worker."""
    return run.fault is not None and (run.fault.kind, run.fault.target) == ("kill", "worker")


def training_continues(run: Run, report: FaultReport) -> bool:
    """Whether training continued to its planned end without the target of the fault.

    Workers that wait for each other at their end wait for the one that was killed, too, so that the
    launcher has to end them; their training is complete by then.
    """
    return report.end_reason == "completed" or _surviving_steps(report) >= run.steps.total


def fault_outcomes(records: Sequence[Record]) -> pd.DataFrame:
    """Build the table of injected faults.

    One row per run, in the order of systems, blocks and faults: ``system``, ``fault``, ``block``;
    ``steps`` completed by the slowest worker other than the target, of ``planned``;
    ``detected_after_s``, from the fault to the first error in another process, NaN without one, and
    ``first_error``: that error, ``completed`` or ``no error``; ``survivors``, the processes that
    did not fail; ``weight_holders``, the survivors that still hold all weights; ``continues``, see
    `training_continues`; ``outcome``, one of `OUTCOMES`; ``rejoined``, whether a restarted process
    took part again; ``updates``, the `UpdateHistory` if updates were recorded; ``reason`` of a run
    without a report; ``record``.
    """
    rows = []
    by_fault = sorted(records, key=lambda each: each.run.fault.name if each.run.fault else "")
    for record in chain.from_iterable(by_system(by_fault).values()):
        run, fault, report = record.run, record.run.fault, record.fault_report()
        if fault is not None:
            outcome = (
                _outcome(fault, record, report) if report else {"reason": record.result.reason}
            )
            rows.append(
                {
                    "system": run.system.name,
                    "fault": fault.name,
                    "block": run.block,
                    "planned": run.steps.total,
                    "updates": record.result.update_history,
                    **outcome,
                    "record": record.folder.name,
                }
            )
    return pd.DataFrame(rows)


def continued(outcomes: pd.DataFrame) -> pd.Series:
    """Return whether training continued in each run of `fault_outcomes` with a known outcome.

    The index has the systems.
    """
    if outcomes.empty or "outcome" not in outcomes:
        return pd.Series(dtype=bool)
    known = outcomes.dropna(subset="outcome")
    return known.set_index("system")["continues"].astype(bool)


def _outcome(fault: FaultSpec, record: Record, report: FaultReport) -> dict[str, object]:
    failure = report.first_failure
    first_error = "completed" if report.end_reason == "completed" else "no error"
    if failure is not None:
        first_error = failure.error or f"{failure.process} exited without an error message"
    outcome, continues = _OUTCOME_OF[report.end_reason], training_continues(record.run, report)
    # A process that is paused for good did not survive.
    is_lost = fault.kind in ("pause", "disconnect") and fault.duration_s is None
    survivors = [
        process
        for process in report.processes
        if process.outcome in ("completed", "running")
        and not (is_lost and process.process == report.target)
    ]
    return {
        "steps": _surviving_steps(report),
        "detected_after_s": failure.detected_after_s if failure else nan,
        "first_error": first_error,
        "survivors": ", ".join(process.process for process in survivors),
        "weight_holders": ", ".join(_weight_holders(record.run, survivors)),
        "continues": continues,
        "outcome": _COMPLETES_THEN_HANGS if outcome == "hangs" and continues else outcome,
        "rejoined": report.rejoined,
        "reason": "",
    }


def _surviving_steps(report: FaultReport) -> int:
    """Return the steps completed by the slowest worker other than the target.

    A coordinator that counts for its workers is one process; where only the target counts steps,
    its own are returned.
    """
    counted = [p for p in report.processes if p.steps_before is not None and p.incarnation == 1]
    others = [process for process in counted if process.process != report.target] or counted
    return min(((p.steps_before or 0) + (p.steps_after or 0) for p in others), default=0)


def _weight_holders(run: Run, survivors: Sequence[ProcessOutcome]) -> list[str]:
    """List the survivors that hold all weights: any one worker, or all of the servers."""
    holders = []
    for role in run.system.info.weight_holders:
        alive = [p.process for p in survivors if p.role == role and p.incarnation == 1]
        needed = run.topology.servers if role == "server" else 1
        if len(alive) >= needed:
            holders += alive
    return holders
