"""Supervision of started processes: completion, failure, stalls and timeouts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from horizont.errors import RunFailed
from horizont.launchers.base import ProcessHandle
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup, terminating, wait_for_exit
from horizont.monitoring.process_control import defer_interrupts

#: Processes that use fewer cores than this, all together, are idle.
IDLE_CORES = 0.1
#: CPU time that idle processes may use at once, in seconds.
IDLE_CPU_S = 0.1

#: Seconds between two checks of running processes.
TICK_S = 0.2


class LivenessMonitor:
    """The time for which no process of a run has made progress; more `handles` may be added later.

    CPU time counts as progress, which distinguishes a long step, or one on a busy machine, from a
    stalled run.
    """

    def __init__(self, handles: Sequence[ProcessHandle]) -> None:
        self.handles = list(handles)
        self._last_state: list[Any] = []
        self._last_change_s = time.monotonic()
        self._cpu_s_by_process: dict[str, float] = {}
        self._cpu_at_change_s = 0.0

    def idle_s(self) -> float:
        """Return the seconds since any process made a step, logged an event or used CPU time."""
        now_s = time.monotonic()
        state = [(handle.step_count(), len(handle.events())) for handle in self.handles]
        used_s = self._total_cpu_s() - self._cpu_at_change_s
        allowed_s = IDLE_CPU_S + IDLE_CORES * (now_s - self._last_change_s)
        if state != self._last_state or used_s > allowed_s:
            self._last_state, self._last_change_s = state, now_s
            self._cpu_at_change_s += used_s
        return now_s - self._last_change_s

    def _total_cpu_s(self) -> float:
        """Sum the CPU time of all processes, those that have ended included."""
        for handle in self.handles:
            cpu_s = handle.cpu_time_s()
            if cpu_s is not None:
                self._cpu_s_by_process[handle.name] = cpu_s
        return sum(self._cpu_s_by_process.values())


def supervise(
    handles: Sequence[ProcessHandle],
    timeout_s: float,
    on_tick: Callable[[], None],
    stall_timeout_s: float | None = None,
) -> None:
    """Wait until all processes that participate in training have completed.

    The frameworks cannot be relied on to detect a lost process (MXNet waits forever), so every
    process is watched here, and the first failure ends the run. It raises `RunFailed`, as do a
    timeout and `stall_timeout_s` without progress (see `LivenessMonitor`). `on_tick` is called
    every `TICK_S` seconds.
    """
    deadline_s = time.monotonic() + timeout_s
    liveness = LivenessMonitor(handles)
    running = list(handles)
    while any(not handle.plan.is_service for handle in running):
        ended = wait_for_exit(running, TICK_S)
        # A killed process first: it may be the cause of the errors of the others.
        for handle in sorted(ended, key=lambda handle: handle.reap() != -signal.SIGKILL):
            running.remove(handle)
            if handle.reap() != 0:
                raise RunFailed(describe_exit(handle))
        if time.monotonic() > deadline_s:
            raise RunFailed(f"timeout of {timeout_s:g} s expired with {running_names(running)}")
        if stall_timeout_s is not None and liveness.idle_s() > stall_timeout_s:
            raise RunFailed(f"no progress for {stall_timeout_s:g} s with {running_names(running)}")
        on_tick()


def describe_exit(handle: ProcessHandle) -> str:
    """Return name, exit status and last error of a process that has ended."""
    status = handle.reap()
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    # What a killed process wrote last is no reason for its end.
    error = "" if status == -signal.SIGKILL else handle.last_error()
    return f"{handle.name} {how}" + (f": {error}" if error else "")


def running_names(running: Sequence[ProcessHandle]) -> str:
    """List the processes that are still running, and whether they are stopped."""
    names = [handle.name + (" (stopped)" if handle.is_stopped() else "") for handle in running]
    return f"{', '.join(names)} still running"


def run_in_parallel(
    plans: Sequence[ProcessPlan], timeout_s: float, on_exit: Callable[[ProcessPlan], None]
) -> None:
    """Run processes on this machine, as many at once as there are CPUs, without a record.

    The log of a process is ``process.log`` in its folder. `on_exit` is called with the plan of each
    one that completed. If one fails or the timeout expires, all are stopped: `RunFailed`.
    """
    deadline_s = time.monotonic() + timeout_s
    waiting, running = list(plans), list[ProcessHandle]()
    handles: list[ProcessHandle] = []
    with terminating(handles):
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                running.append(_start_process(waiting.pop(0), handles))
            for handle in wait_for_exit(running, deadline_s - time.monotonic()):
                running.remove(handle)
                if handle.reap() != 0:
                    raise RunFailed(describe_exit(handle))
                on_exit(handle.plan)
            if time.monotonic() > deadline_s:
                raise RunFailed(f"timeout of {timeout_s:g} s expired with {running_names(running)}")


def run_as_group(plans: Sequence[ProcessPlan], timeout_s: float) -> None:
    """Run processes that communicate, all at once on this machine, without a record.

    If one fails or the timeout expires, all are stopped: `RunFailed`.
    """
    handles: list[ProcessHandle] = []
    with terminating(handles):
        for plan in plans:
            _start_process(plan, handles)
        supervise(handles, timeout_s, lambda: None)


def _start_process(plan: ProcessPlan, handles: list[ProcessHandle]) -> ProcessHandle:
    # No interrupt between the start of the process and its entry in the list.
    with defer_interrupts():
        handles.append(ProcessGroup(plan, plan.folder / "process.log"))
    return handles[-1]
