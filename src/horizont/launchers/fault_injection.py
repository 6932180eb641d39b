"""How an incident is carried out, with no more rights than those of the user."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from horizont.config.faults import FaultSpec
from horizont.config.jobs import WorkerJob
from horizont.config.run import Run
from horizont.launchers.base import Cluster
from horizont.launchers.collect import resumed_training
from horizont.launchers.plan import JOB_FILE, PROGRESS_FILE, ProcessPlan, RunPlan
from horizont.launchers.process import ProcessGroup
from horizont.launchers.supervisor import (
    LivenessMonitor,
    RunFailed,
    describe_exit,
    steps_done,
    wait_for_any,
)
from horizont.records.files import read_events
from horizont.records.record import RecordWriter
from horizont.records.results import EndReason, FaultReport, Outcome, ProcessOutcome

#: A slowed process is let run and stopped in turns; a turn of both takes so long, in seconds.
THROTTLE_PERIOD_S = 0.1


def inject(
    fault: FaultSpec, target: ProcessGroup, restart: Callable[[], None], cluster: Cluster
) -> Iterator[float]:
    """Carry an incident out, piece by piece.

    Yields
    ------
    float
        Seconds after which the next piece is due. It is over when there is none.
    """
    if fault.kind == "throttle":
        yield from _throttle(fault, target)
        return
    match fault.kind:
        case "kill" | "restart":
            target.signal(signal.SIGKILL)
        case "pause":
            target.signal(signal.SIGSTOP)
        case "disconnect":
            cluster.disconnect(target.plan.host)
    if fault.duration_s is None:
        return
    yield fault.duration_s
    match fault.kind:
        case "restart":
            restart()
        case "pause":
            target.signal(signal.SIGCONT)
        case "disconnect":
            cluster.reconnect(target.plan.host)


def _throttle(fault: FaultSpec, target: ProcessGroup) -> Iterator[float]:
    """Stop a process and let it go on, in turns, so that it runs for a share of the time."""
    assert fault.cpu_fraction is not None
    end_s = time.monotonic() + (fault.duration_s or float("inf"))
    while time.monotonic() < end_s:
        target.signal(signal.SIGSTOP)
        yield THROTTLE_PERIOD_S * (1 - fault.cpu_fraction)
        target.signal(signal.SIGCONT)
        yield THROTTLE_PERIOD_S * fault.cpu_fraction


#: Seconds between two looks: to meet the step at which it happens, and afterwards.
POLL_BEFORE_S, POLL_AFTER_S = 0.02, 0.2
#: When nobody trains any more, the passive processes are given so long to notice.
GRACE_S = 3.0

StartProcess = Callable[[ProcessPlan], ProcessGroup]


@dataclass
class ObservedProcess:
    """A process of the run, and what became of it so far.

    Attributes
    ----------
    end
        None while it runs.
    """

    group: ProcessGroup
    incarnation: int = 1
    outcome: Outcome | None = None
    ended_after_s: float | None = None
    error_after_s: float | None = None
    error: str = ""
    exit_status: int = 0
    steps_before: int | None = None

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.group.name

    @property
    def job(self) -> WorkerJob:
        """What it was told."""
        assert isinstance(self.group.plan.job, WorkerJob)
        return self.group.plan.job

    @property
    def participates(self) -> bool:
        """Whether it trains or leads, so that the run is not over without it."""
        return not self.group.plan.is_service

    def steps(self) -> int | None:
        """Tell the steps that it has made; None if it counts none."""
        return steps_done(self.group.plan.folder)


class FaultInjection:
    """The processes of a run, the incident, and what came of it."""

    def __init__(
        self,
        plan: RunPlan,
        groups: list[ProcessGroup],
        start_process: StartProcess,
        record: RecordWriter,
        cluster: Cluster,
    ) -> None:
        assert plan.run.fault is not None
        self.run_settings, self.fault = plan.run, plan.run.fault
        self.record = record
        self.start_process = start_process
        self.cluster = cluster
        self.processes = [ObservedProcess(group) for group in groups]
        seat = self.fault.target_process(self.run_settings.system)
        self.target = next(m for m in self.processes if (m.job.role, m.job.rank) == seat)
        self.liveness = LivenessMonitor(groups)
        self.injected_s: float | None = None
        self.at_step = 0
        self._actions: Iterator[float] = iter(())
        self._next_action_s = math.inf

    def run(self, on_tick: Callable[[], None]) -> FaultReport:
        """Watch until everything is over, and tell what came of the incident.

        Raises
        ------
        RunFailed
            If the run fails, or is over, before anything could happen to it.
        """
        deadline_s = time.monotonic() + self.run_settings.timeout_s
        while True:
            now_s = time.monotonic()
            pause_s = POLL_BEFORE_S if self.injected_s is None else POLL_AFTER_S
            self._wait_for_exits(max(0.0, min(pause_s, self._next_action_s - now_s)))
            on_tick()
            self._advance()
            over = self._end_reason(time.monotonic() > deadline_s)
            if over is not None:
                return self._report(over)

    def _wait_for_exits(self, pause_s: float) -> None:
        """Wait a little, and note who has ended."""
        running = {m.group.pidfd: m for m in self.processes if m.outcome is None}
        for group in wait_for_any([m.group for m in running.values()], pause_s):
            self._record_exit(running[group.pidfd])

    def _record_exit(self, process: ObservedProcess) -> None:
        now_s = time.monotonic()
        process.exit_status = process.group.reap()
        struck = process is self.target and self.fault.kind in ("kill", "restart")
        if process.exit_status == 0:
            process.outcome = "completed"
        else:
            process.outcome = "injected" if struck and self.injected_s is not None else "failed"
        if self.injected_s is None:
            if process.outcome == "failed":
                raise RunFailed(f"before the incident {describe_exit(process.group)}")
            return
        process.ended_after_s = now_s - self.injected_s
        self.record.log_event(
            "process_ended",
            process=process.name,
            status=process.exit_status,
            after_s=process.ended_after_s,
        )

    def _record_errors(self, injected_s: float) -> None:
        """Note in whom an error was raised: some need long to end of it, and some hang then."""
        for member in self.processes:
            if member.error_after_s is None and member.outcome not in ("injected", "completed"):
                for line in read_events(member.group.plan.folder / "events.jsonl"):
                    if line["event"] == "error":
                        member.error_after_s = line["time_s"] - injected_s
                        member.error = line["words"]

    def _advance(self) -> None:
        """Let the incident happen when it is time, and take its next piece when that is due."""
        if self.injected_s is None:
            steps = self._trigger_step()
            if steps is None or steps < self.fault.at_step:
                return
            self._inject()
        elif time.monotonic() < self._next_action_s:
            return
        if self.fault.kind == "throttle" and self.target.outcome is not None:
            self._next_action_s = math.inf
            return
        pause_s = next(self._actions, None)
        if pause_s is None and self._next_action_s < math.inf:
            self.record.log_event("fault_ended", process=self.target.name)
        self._next_action_s = math.inf if pause_s is None else time.monotonic() + pause_s

    def _trigger_step(self) -> int | None:
        """Tell the steps that the moment goes by: the victim's own, or the slowest worker's."""
        own = self.target.steps()
        if own is not None:
            return own
        if self.target.participates:
            return None
        counted = [m.steps() for m in self.processes if m.participates]
        known = [steps for steps in counted if steps is not None]
        return min(known) if len(known) == len(counted) else None

    def _inject(self) -> None:
        self.at_step = self._trigger_step() or 0
        for member in self.processes:
            member.steps_before = member.steps()
        self.injected_s = time.monotonic()
        self.record.log_event("fault", process=self.target.name, what=self.fault.name)
        self._actions = inject(self.fault, self.target.group, self._restart, self.cluster)

    def _restart(self) -> None:
        member = ObservedProcess(
            self.start_process(restarted_plan(self.target.group.plan)), incarnation=2
        )
        self.processes.append(member)
        self.liveness.groups.append(member.group)

    def _end_reason(self, timed_out: bool) -> EndReason | None:
        """Tell why there is nothing to wait for any more; None if there is."""
        if self.injected_s is not None:
            self._record_errors(self.injected_s)
        leading = [
            m
            for m in self.processes
            if m.participates and m.outcome is None and m.error_after_s is None
        ]
        if self.injected_s is None:
            if timed_out:
                raise RunFailed(
                    f"deadline of {self.run_settings.timeout_s:g} s passed before the incident"
                )
            if not leading:
                raise RunFailed("the run was over before the incident could happen")
            return None
        quiet_s = min(self.liveness.idle_s(), self._since_last_exit_s())
        if not leading and self._is_complete():
            return "completed"
        if timed_out:
            return "timeout"
        if self._next_action_s < math.inf:  # there is more to come of the incident
            return None
        if not leading and (quiet_s > GRACE_S or all(m.outcome for m in self.processes)):
            return "all_exited"
        return "stalled" if quiet_s > (self.run_settings.stall_timeout_s or math.inf) else None

    def _since_last_exit_s(self) -> float:
        assert self.injected_s is not None
        ends = [m.ended_after_s for m in self.processes if m.ended_after_s is not None]
        return time.monotonic() - self.injected_s - max(ends, default=0.0)

    def _is_complete(self) -> bool:
        """Whether each of those that train or lead has done its work, in one life or another."""
        seats = {(m.job.role, m.job.rank) for m in self.processes if m.participates}
        return seats <= {
            (m.job.role, m.job.rank) for m in self.processes if m.outcome == "completed"
        }

    def _report(self, end_reason: EndReason) -> FaultReport:
        assert self.injected_s is not None
        over_s = time.monotonic() - self.injected_s
        self.record.log_event("supervision_ended", end_reason=end_reason, after_s=over_s)
        fates = tuple(self._process_outcome(member) for member in self.processes)
        return FaultReport(
            target=self.target.name,
            at_step=self.at_step,
            end_reason=end_reason,
            ended_after_s=over_s,
            processes=fates,
            rejoined=self._rejoined(end_reason),
        )

    def _rejoined(self, end_reason: EndReason) -> bool | None:
        """Tell whether the second life had a part in the training."""
        second = next((m for m in self.processes if m.incarnation == 2), None)
        if second is None or self.injected_s is None:
            return None
        if second.job.role != "worker":
            return end_reason == "completed"
        if second.participates:
            return bool(second.steps())
        leaders = [m.group.plan.folder for m in self.processes if m.participates]
        back_s = self.injected_s + (self.fault.duration_s or 0.0)
        # One that is led may just have come too late to be handed any.
        return resumed_training(leaders, second.job.rank, back_s) or None

    def _process_outcome(self, process: ObservedProcess) -> ProcessOutcome:
        steps = process.steps()
        before = process.steps_before if process.incarnation == 1 else 0
        known = steps is not None and before is not None
        return ProcessOutcome(
            process=process.name,
            role=process.job.role,
            rank=process.job.rank,
            incarnation=process.incarnation,
            outcome=process.outcome or ("running" if process.error_after_s is None else "failed"),
            ended_after_s=process.ended_after_s,
            error_after_s=process.error_after_s,
            error=process.error
            or (process.group.last_error() if process.outcome == "failed" else ""),
            steps_before=before if known else None,
            steps_after=steps - before if known else None,  # type: ignore[operator]
        )


def raise_if_incomplete(run: Run, report: FaultReport) -> None:
    """Raise :class:`RunFailed`, with the reason, if the training did not get to its end."""
    if report.end_reason == "completed":
        return
    assert run.fault is not None
    happened = run.fault.kind.replace("_", " ")
    running = ", ".join(fate.process for fate in report.processes if fate.outcome == "running")
    came = {
        "all_exited": "nobody was left to train",
        "stalled": f"no progress for {run.stall_timeout_s or 0:g} s with {running} still running",
        "timeout": f"deadline of {run.timeout_s:g} s passed with {running} still running",
    }[report.end_reason]
    noticed = report.first_failure
    if noticed is not None:
        came = f"{noticed.process} failed {noticed.detected_after_s:.1f} s later: {noticed.error}"
    raise RunFailed(f"{report.target} was {happened} at step {report.at_step}; {came}")


def restarted_folders(folders: Sequence[Path]) -> list[Path]:
    """List the folders of the processes that were started again."""
    names = [restarted_folder(folder) for folder in folders]
    return [folder for folder in names if folder.exists()]


def restarted_folder(folder: Path) -> Path:
    """Name the folder of the second life of a process."""
    return folder.with_name(f"{folder.name}-again")


def restarted_plan(plan: ProcessPlan) -> ProcessPlan:
    """Plan the second life of a process: the same seat and endpoints, a folder of its own."""
    assert isinstance(plan.job, WorkerJob)
    folder = restarted_folder(plan.folder)
    job = plan.job.model_copy(update={"folder": folder, "progress": folder / PROGRESS_FILE})
    argv = (*plan.argv[:-1], str(folder / JOB_FILE))
    return replace(plan, name=folder.name, argv=argv, folder=folder, job=job)
