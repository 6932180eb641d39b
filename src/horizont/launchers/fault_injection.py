"""Injection of a fault into a running process, and observation of its consequences."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from horizont.config.faults import PAST_PARTICIPLE, FaultSpec
from horizont.config.jobs import WorkerJob
from horizont.config.run import Run
from horizont.errors import RunFailed
from horizont.launchers.base import Cluster, ProcessHandle
from horizont.launchers.collect import resumed_training
from horizont.launchers.plan import ProcessPlan, RunPlan, restarted_plan
from horizont.launchers.process import wait_for_exit
from horizont.launchers.supervisor import LivenessMonitor, describe_exit
from horizont.records.record import RecordWriter
from horizont.records.results import EndReason, FaultReport, Outcome, ProcessOutcome

#: A throttled process is stopped and resumed in turns, once per period, in seconds.
THROTTLE_PERIOD_S = 0.1

#: Seconds between two checks, before the injection (to hit the step) and after it.
POLL_BEFORE_S, POLL_AFTER_S = 0.02, 0.2
#: Seconds for services to end when no process trains any more.
GRACE_S = 3.0


def inject(
    fault: FaultSpec, target: ProcessHandle, restart: Callable[[], None], cluster: Cluster
) -> Iterator[float]:
    """Start a fault; yield the seconds until its next action, and return when it is over."""
    match fault.kind:
        case "throttle":
            yield from _throttle(fault, target)
            return
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


def _throttle(fault: FaultSpec, target: ProcessHandle) -> Iterator[float]:
    """Stop and resume a process, so that it runs for a fraction of each period.

    Unlike a CPU quota, signals need no rights beyond those of the user.
    """
    assert fault.cpu_fraction is not None
    end_s = time.monotonic() + (fault.duration_s or math.inf)
    while time.monotonic() < end_s:
        target.signal(signal.SIGSTOP)
        yield THROTTLE_PERIOD_S * (1 - fault.cpu_fraction)
        target.signal(signal.SIGCONT)
        yield THROTTLE_PERIOD_S * fault.cpu_fraction


@dataclass
class ObservedProcess:
    """A process of the run and its outcome so far; times on the monotonic clock.

    Attributes
    ----------
    incarnation
        1, or 2 for a restarted process.
    outcome
        None while the process runs.
    error_s
        Time of its last error.
    steps_before
        Steps done at the injection; None if the process counts none.
    """

    handle: ProcessHandle
    incarnation: int = 1
    outcome: Outcome | None = None
    ended_s: float | None = None
    error_s: float | None = None
    error: str = ""
    steps_before: int | None = None

    @property
    def identity(self) -> tuple[str, int]:
        """Role and rank."""
        assert isinstance(self.handle.plan.job, WorkerJob)
        return self.handle.plan.job.role, self.handle.plan.job.rank

    @property
    def participates(self) -> bool:
        """Whether the process trains or coordinates, so that the run needs it to complete."""
        return not self.handle.plan.is_service

    def steps(self) -> int | None:
        """Return the steps done; None if the process counts none."""
        count = self.handle.step_count()
        return None if count is None else count.done

    def result(self, injected_s: float) -> ProcessOutcome:
        """Return the outcome, with times since the injection."""
        role, rank = self.identity
        steps, before = self.steps(), self.steps_before if self.incarnation == 1 else 0
        has_ended = self.ended_s is not None and self.ended_s > injected_s
        counts = steps is not None and before is not None
        return ProcessOutcome(
            process=self.handle.name,
            role=role,
            rank=rank,
            incarnation=self.incarnation,
            outcome=self.outcome or ("running" if self.error_s is None else "failed"),
            ended_after_s=self.ended_s - injected_s if has_ended else None,  # type: ignore[operator]
            error_after_s=None if self.error_s is None else self.error_s - injected_s,
            error=self.error or (self.handle.last_error() if self.outcome == "failed" else ""),
            steps_before=before if counts else None,
            steps_after=steps - before if counts else None,  # type: ignore[operator]
        )


class FaultInjection:
    """A run with a fault: its processes, the state of the fault, and the report.

    `start_process` starts a process of the run again.
    """

    def __init__(
        self,
        plan: RunPlan,
        handles: Sequence[ProcessHandle],
        start_process: Callable[[ProcessPlan], ProcessHandle],
        record: RecordWriter,
        cluster: Cluster,
    ) -> None:
        assert plan.run.fault is not None
        self.run_settings, self.fault = plan.run, plan.run.fault
        self.record = record
        self.start_process = start_process
        self.cluster = cluster
        self.processes = [ObservedProcess(handle) for handle in handles]
        target = self.fault.target_process(self.run_settings.system)
        self.target = next(process for process in self.processes if process.identity == target)
        self.liveness = LivenessMonitor(handles)
        self.injected_s = math.nan
        self._actions: Iterator[float] = iter(())
        self._next_action_s = math.inf

    def run(self, on_tick: Callable[[], None]) -> FaultReport:
        """Run until all processes have ended or stalled, and return the report.

        A run that fails or ends before the fault is injected raises `RunFailed`.
        """
        deadline_s = time.monotonic() + self.run_settings.timeout_s
        at_step = self._wait_for_step(deadline_s, on_tick)
        for process in self.processes:
            process.steps_before = process.steps()
        self.injected_s = self._next_action_s = time.monotonic()
        self.record.log_event("fault", process=self.target.handle.name, what=self.fault.name)
        self._actions = inject(self.fault, self.target.handle, self._restart, self.cluster)
        self._act()
        while (end_reason := self._end_reason(time.monotonic() > deadline_s)) is None:
            wait_s = min(POLL_AFTER_S, self._next_action_s - time.monotonic())
            self._record_exits(max(0.0, wait_s))
            on_tick()
            if time.monotonic() >= self._next_action_s:
                self._act()
        return self._report(at_step, end_reason)

    def _wait_for_step(self, deadline_s: float, on_tick: Callable[[], None]) -> int:
        """Wait until the fault is due; return the steps done by then."""
        while True:
            for process in self._reap_ended(POLL_BEFORE_S):
                if process.outcome == "failed":
                    raise RunFailed(f"before the fault {describe_exit(process.handle)}")
            on_tick()
            steps = self._trigger_steps()
            if steps is not None and steps >= self.fault.at_step:
                return steps
            if time.monotonic() > deadline_s:
                limit_s = self.run_settings.timeout_s
                raise RunFailed(f"timeout of {limit_s:g} s expired before the fault")
            if not any(p.participates and p.outcome is None for p in self.processes):
                raise RunFailed("the run ended before the fault")

    def _trigger_steps(self) -> int | None:
        """Return the steps of the target, or of the slowest worker if the target counts none."""
        steps = self.target.steps()
        if steps is not None:
            return steps
        if self.target.participates:
            return None
        counts = [process.steps() for process in self.processes if process.participates]
        known = [count for count in counts if count is not None]
        return min(known) if len(known) == len(counts) else None

    def _reap_ended(self, timeout_s: float) -> list[ObservedProcess]:
        """Wait for the end of any process; return those that have ended."""
        running = [process for process in self.processes if process.outcome is None]
        exited = wait_for_exit([process.handle for process in running], timeout_s)
        ended = [process for process in running if process.handle in exited]
        for process in ended:
            process.ended_s = time.monotonic()
            process.outcome = "completed" if process.handle.reap() == 0 else "failed"
        return ended

    def _record_exits(self, timeout_s: float) -> None:
        for process in self._reap_ended(timeout_s):
            was_killed = process is self.target and self.fault.kind in ("kill", "restart")
            if process.outcome == "failed" and was_killed:
                process.outcome = "injected"
            assert process.ended_s is not None
            self.record.log_event(
                "process_ended",
                process=process.handle.name,
                status=process.handle.exit_status,
                after_s=process.ended_s - self.injected_s,
            )

    def _record_errors(self) -> None:
        """Record errors as they are raised: some processes take long to exit, and some hang."""
        for process in self.processes:
            if process.error_s is None and process.outcome not in ("injected", "completed"):
                for event in process.handle.events():
                    if event["event"] == "error":
                        process.error_s, process.error = event["time_s"], event["error"]

    def _act(self) -> None:
        """Run the next action of the fault."""
        if self.fault.kind == "throttle" and self.target.outcome is not None:
            self._next_action_s = math.inf
            return
        pause_s = next(self._actions, None)
        if pause_s is not None:
            self._next_action_s = time.monotonic() + pause_s
            return
        if self._next_action_s > self.injected_s:
            self.record.log_event("fault_ended", process=self.target.handle.name)
        self._next_action_s = math.inf

    def _restart(self) -> None:
        handle = self.start_process(restarted_plan(self.target.handle.plan))
        self.processes.append(ObservedProcess(handle, incarnation=2))
        self.liveness.handles.append(handle)

    def _end_reason(self, timed_out: bool) -> EndReason | None:
        """Return why the run is over; None while there is something to wait for."""
        self._record_errors()
        participants = [process for process in self.processes if process.participates]
        is_training = any(p.outcome is None and p.error_s is None for p in participants)
        ends_s = [process.ended_s for process in self.processes if process.ended_s is not None]
        idle_s = min(self.liveness.idle_s(), time.monotonic() - max([self.injected_s, *ends_s]))
        completed = {p.identity for p in participants if p.outcome == "completed"}
        # Of a restarted process, one incarnation has to complete.
        if not is_training and completed == {process.identity for process in participants}:
            return "completed"
        if timed_out:
            return "timeout"
        if self._next_action_s < math.inf:  # the fault is not over
            return None
        if not is_training and (idle_s > GRACE_S or all(p.outcome for p in self.processes)):
            return "all_exited"
        return "stalled" if idle_s > (self.run_settings.stall_timeout_s or math.inf) else None

    def _report(self, at_step: int, end_reason: EndReason) -> FaultReport:
        ended_after_s = time.monotonic() - self.injected_s
        self.record.log_event("supervision_ended", end_reason=end_reason, after_s=ended_after_s)
        return FaultReport(
            target=self.target.handle.name,
            at_step=at_step,
            end_reason=end_reason,
            ended_after_s=ended_after_s,
            processes=tuple(process.result(self.injected_s) for process in self.processes),
            rejoined=self._rejoined(end_reason),
        )

    def _rejoined(self, end_reason: EndReason) -> bool | None:
        """Whether the restarted process took part in training; None if that is unknown."""
        restarted = next((p for p in self.processes if p.incarnation == 2), None)
        if restarted is None:
            return None
        role, rank = restarted.identity
        if role != "worker":
            return end_reason == "completed"
        if restarted.participates:
            return bool(restarted.steps())
        participants = [process.handle for process in self.processes if process.participates]
        for handle in participants:
            handle.fetch_outputs()
        restarted_s = self.injected_s + (self.fault.duration_s or 0.0)
        # A worker without a loop of its own may have been too late to be assigned a step.
        return resumed_training([h.plan.folder for h in participants], rank, restarted_s) or None


def raise_if_incomplete(run: Run, report: FaultReport) -> None:
    """Raise `RunFailed`, with the reason, if training was not completed."""
    if report.end_reason == "completed":
        return
    assert run.fault is not None
    running = ", ".join(p.process for p in report.processes if p.outcome == "running")
    consequence = {
        "all_exited": "all training processes had exited",
        "stalled": f"no progress for {run.stall_timeout_s or 0:g} s with {running} still running",
        "timeout": f"timeout of {run.timeout_s:g} s expired with {running} still running",
    }[report.end_reason]
    failure = report.first_failure
    if failure is not None:
        after_s, error = failure.detected_after_s, failure.error
        consequence = f"{failure.process} failed {after_s:.1f} s later: {error}"
    fault = f"{report.target} was {PAST_PARTICIPLE[run.fault.kind]} at step {report.at_step}"
    raise RunFailed(f"{fault}; {consequence}")
