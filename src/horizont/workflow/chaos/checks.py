"""What a chaos case may leave behind: the record, which says what happened, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from horizont.config.system import parse_system
from horizont.errors import INTERRUPTED
from horizont.launchers.plan import role_assignment
from horizont.records.record import Record, RecordWriter
from horizont.workflow.chaos.cases import LONG_RUN, SHORT_RUN, Case, has_agents
from horizont.workflow.chaos.observation import Observation, listening_ports

#: Seconds for the processes to end after their launcher; on hosts of agents, whose lease has to
#: expire if the launcher was killed.
REMAIN_S, REMAIN_ON_AGENTS_S = 5.0, 10.0

POLL_S = 0.02


@dataclass
class Outcome:
    """What became of a case.

    Attributes
    ----------
    happened
        Whether the fault found its target alive.
    status
        Exit status of the launcher, or minus the signal that ended it; None if it hung.
    ports
        The ports of the run at the moment of the fault.
    defects
        What should not be; empty if the run ended as it should.
    injected_s
        When the fault was injected, on the monotonic clock.
    """

    case: Case
    happened: bool = False
    status: int | None = None
    record: Record | None = None
    ports: set[int] = field(default_factory=set)
    defects: list[str] = field(default_factory=list)
    injected_s: float = 0.0

    @property
    def result(self) -> str:
        """The result in a few words."""
        if not self.happened:
            return "the run ended before the fault"
        if self.record is None:
            return "no record"
        return self.record.result.reason or "completed"


def check_remains(outcome: Outcome, observation: Observation, scratch: Path) -> list[str]:
    """List the processes, records and temporary files that should not be left."""
    case = outcome.case
    on_agents = has_agents(case.launcher)
    limit_s = REMAIN_ON_AGENTS_S if on_agents else REMAIN_S
    defects = []
    if not _holds(lambda: not observation.processes(), limit_s):
        left = [" ".join(process.cmdline())[:120] for process in observation.processes()]
        defects.append(f"{len(left)} processes left after {limit_s:g} s: {'; '.join(left)}")
    # The kernel may close the sockets of a killed process a little later.
    if not _holds(lambda: not outcome.ports & listening_ports(), REMAIN_S):
        defects.append(f"still listening: {sorted(outcome.ports & listening_ports())}")
    if outcome.status == -signal.SIGKILL:
        RecordWriter.remove_abandoned(observation.store)  # as the next run does
    if half := sorted(path.name for path in observation.store.glob(".*")):
        defects.append(f"incomplete records: {', '.join(half)}")
    if hidden := [path.name for path in observation.store.glob("*/**/.*")]:
        defects.append(f"files that a process was writing: {', '.join(hidden)}")
    if list(observation.store.glob("*/processes")):
        defects.append("the record has the folders of its processes")
    files = sorted(os.listdir(scratch))
    if files and case.target_kind != "agent":  # whose folder the next agent of its host removes
        defects.append(f"temporary files: {', '.join(files[:5])}")
    shutil.rmtree(scratch)
    scratch.mkdir()
    return defects


def _holds(condition: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(POLL_S)
    return True


def check_end(outcome: Outcome, log: Path) -> list[str]:
    """List what is wrong with the end of the launcher."""
    status, faults = outcome.status, outcome.case.faults_of_launcher if outcome.happened else []
    # A launcher cannot finish a long run after a fault that ends it.
    can_finish = set(faults) <= {"fill_disk"} or outcome.case.timed_steps == SHORT_RUN
    expected = {0} if can_finish else set()
    for name in faults:
        of_fault = {"kill": {-signal.SIGKILL}, "fill_disk": {1, 2}}
        expected |= of_fault.get(name, {INTERRUPTED})
    if status is None or status in expected:
        return []
    return [f"the launcher ended with status {status}: {last_line(log)}"]


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "no output")


def check_record(outcome: Outcome) -> list[str]:
    """List what is wrong with the record: it has to say what happened."""
    case, record = outcome.case, outcome.record
    if outcome.status != 0:
        # A short run may have been finished before the launcher ended.
        must_not_exist = record is not None and case.timed_steps == LONG_RUN
        return ["a record of a run that was not finished"] if must_not_exist else []
    if record is None:
        return ["the launcher finished, but there is no record"]
    history = record.result.update_history
    defects = list(history.examples) if history is not None else []
    if not outcome.happened:
        if not record.ok:
            defects.append(f"the run failed without a fault: {record.result.reason}")
    elif not case.faults_of_launcher:
        find_defect = _defect_of_success if record.ok else _defect_of_failure
        defects.append(find_defect(case, record))
        defects.append(_defect_of_clock(outcome, record))
    return [defect for defect in defects if defect]


def _defect_of_success(case: Case, record: Record) -> str:
    """Return why a run should not have succeeded; empty if it may."""
    if case.target == "sampler":
        ends = [event for event in record.events() if event["event"] == "sampler_ended"]
        is_reported = any(event["reason"] for event in ends)
        return (
            "" if is_reported or not case.what.is_fatal else "the end of the sampler has no reason"
        )
    trains_on = "worker" in parse_system(case.system).info.service_roles
    if case.timed_steps == LONG_RUN and not (trains_on and case.target.startswith("worker")):
        return "the run completed without a process that it needs"
    return ""


def _defect_of_failure(case: Case, record: Record) -> str:
    """Return what is wrong with the failure of a run; empty if nothing is."""
    reason = record.result.reason
    if case.target == "sampler":
        return f"the run failed with its sampler: {reason}"
    needs_clock = parse_system(case.system).info.needs_steady_clock
    if case.what.is_harmless and not (case.what.sets_clock and needs_clock):
        return f"the run failed because of {case.target} {case.what.past_participle}: {reason}"
    names = [f"{role}-{rank}" for role, rank, _ in role_assignment(record.run)]
    if not any(name in reason for name in names):
        return f"the run failed without a reason that names a process: {reason}"
    needed = ""
    if case.target_kind == "process" and case.fault in ("kill", "terminate"):
        needed = case.target
    elif case.target_kind == "process" and case.fault == "pause" and "still running" in reason:
        needed = f"{case.target} (stopped)"
    return "" if needed in reason else f"the reason names another process: {reason}"


def _defect_of_clock(outcome: Outcome, record: Record) -> str:
    """Return what is wrong with the report of a clock that was set; empty if nothing is."""
    case, was_set = outcome.case, record.result.clock_step_s > 0
    if not case.what.sets_clock:
        return "a clock was not set, but the record has a step" if was_set else ""
    # Only an event of the target shows its clock: a launcher on another host has its own.
    shows_clock = any(
        event.get("process") == case.target
        and event["event"] in ("trained", "closed")
        and event["time_s"] > outcome.injected_s
        for event in record.events()
    )
    if shows_clock and not (was_set and record.result.disturbed):
        return "the record does not report that a clock was set"
    return ""
