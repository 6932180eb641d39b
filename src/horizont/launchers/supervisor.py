"""Signs of life: steps made, stages of the start-up passed, processor time used."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from horizont.launchers.plan import PROGRESS_FILE, ProcessPlan
from horizont.launchers.process import ProcessGroup, terminating, wait_for
from horizont.monitoring.process_control import defer_interrupts
from horizont.monitoring.progress import read_step_count

#: Processes that use less than this, all together, in cores, only keep themselves alive.
IDLE_CORES = 0.1
#: So much may be used at a stroke, in seconds.
IDLE_CPU_S = 0.1


class LivenessMonitor:
    """How long the processes of a run have shown no sign of getting on.

    A long step, or one on a busy machine, is told from a hang by the processor time that it uses.

    Parameters
    ----------
    groups
        The processes; one may be added later.
    """

    def __init__(self, groups: Sequence[ProcessGroup]) -> None:
        self.groups = list(groups)
        self._last_state: list[object] = []
        self._last_change_s = time.monotonic()
        self._cpu_s_by_process: dict[str, float] = {}
        self._cpu_at_change_s = 0.0

    def idle_s(self) -> float:
        """Look, and tell for how long nothing has moved, in seconds."""
        now_s = time.monotonic()
        folders = [group.plan.folder for group in self.groups]
        seen: list[object] = [(steps_done(folder), _event_log_bytes(folder)) for folder in folders]
        used_s = self._total_cpu_s() - self._cpu_at_change_s
        if seen != self._last_state or used_s > IDLE_CPU_S + IDLE_CORES * (
            now_s - self._last_change_s
        ):
            self._last_state, self._last_change_s = seen, now_s
            self._cpu_at_change_s += used_s
        return now_s - self._last_change_s

    def _total_cpu_s(self) -> float:
        """Tell the processor time of all, those that have ended included, in seconds."""
        for group in self.groups:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = psutil.Process(group.process.pid).cpu_times()
                self._cpu_s_by_process[group.name] = times.user + times.system
        return sum(self._cpu_s_by_process.values())


def steps_done(folder: Path) -> int | None:
    """Tell the steps that a process has made; None if it counts none (yet)."""
    progress = read_step_count(folder / PROGRESS_FILE)
    return None if progress is None else progress.done


def _event_log_bytes(folder: Path) -> int:
    try:
        return (folder / "events.jsonl").stat().st_size
    except FileNotFoundError:
        return 0


#: How often the watcher looks up from waiting, in seconds.
TICK_S = 0.2


class RunFailed(Exception):
    """A run that did not do what it was asked to, with the reason in a sentence."""


def supervise(
    groups: list[ProcessGroup],
    timeout_s: float,
    on_tick: Callable[[], None],
    stall_timeout_s: float | None = None,
) -> None:
    """Return when all processes that train or lead have ended well.

    The frameworks cannot be trusted to notice a lost process (MXNet waits for ever), so every
    child is watched here, and the first bad end is the end of the run.

    Parameters
    ----------
    groups
        The started processes.
    deadline_s
        Time from now after which the run counts as hung.
    tick
        Called several times a second.
    patience_s
        Time without any sign of life (see :mod:`horizont.launchers.supervisor`) after which the run
        counts as hung; nothing leaves that to the deadline.

    Raises
    ------
    RunFailed
        If a process ends badly, the run hangs, or the deadline passes.
    """
    end = time.monotonic() + timeout_s
    signs = LivenessMonitor(groups)
    running = list(groups)
    while any(not group.plan.is_service for group in running):
        ended = wait_for_any(running, TICK_S)
        # What was killed comes first: the errors of the others may come of it.
        for group in sorted(ended, key=lambda group: group.reap() != -signal.SIGKILL):
            running.remove(group)
            check_exit(group)
        if time.monotonic() > end:
            raise RunFailed(f"deadline of {timeout_s:g} s passed with {running_names(running)}")
        if stall_timeout_s is not None and signs.idle_s() > stall_timeout_s:
            raise RunFailed(f"no progress for {stall_timeout_s:g} s with {running_names(running)}")
        on_tick()


def wait_for_any(groups: list[ProcessGroup], timeout_s: float) -> list[ProcessGroup]:
    """Wait until some leader has ended or the time is up, and tell who has ended."""
    return wait_for(groups, timeout_s, count=1)


def check_exit(group: ProcessGroup) -> None:
    """Collect a process that has ended, and raise :class:`RunFailed` if it ended badly."""
    if group.reap() != 0:
        raise RunFailed(describe_exit(group))


def describe_exit(group: ProcessGroup) -> str:
    """Tell name, status and last error of a process that was collected."""
    status = group.reap()
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    words = group.last_error()
    return f"{group.name} {how}" + (f": {words}" if words else "")


def running_names(running: list[ProcessGroup]) -> str:
    """Name the processes that still run, and which of them somebody has stopped."""
    names = [group.name + (" (stopped)" if _is_stopped(group) else "") for group in running]
    return f"{', '.join(names)} still running"


def _is_stopped(group: ProcessGroup) -> bool:
    try:
        return bool(psutil.Process(group.process.pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def run_in_parallel(
    processes: Sequence[ProcessPlan],
    timeout_s: float,
    on_exit: Callable[[ProcessPlan], None],
) -> None:
    """Start each process, as many at once as there are cores, and wait for all.

    Parameters
    ----------
    processes
        A process works in its folder; its log lies there.
    ended
        Called with each process that ended well.

    Raises
    ------
    RunFailed
        If a process ends badly, or they take too long together. None is left running.
    """
    end_s = time.monotonic() + timeout_s
    waiting, running = list(processes), list[ProcessGroup]()
    groups: list[ProcessGroup] = []
    with terminating(groups):
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                running.append(_start_process(waiting.pop(0), groups))
            for group in wait_for_any(running, end_s - time.monotonic()):
                running.remove(group)
                check_exit(group)
                on_exit(group.plan)
            if time.monotonic() > end_s:
                names = ", ".join(group.name for group in running)
                raise RunFailed(f"deadline of {timeout_s:g} s passed with {names} still running")


def run_as_group(processes: Sequence[ProcessPlan], timeout_s: float) -> None:
    """Start processes that wait for each other, all at once, and wait for those that train.

    Raises
    ------
    RunFailed
        If one ends badly, or they take too long. None is left running.
    """
    groups: list[ProcessGroup] = []
    with terminating(groups):
        for planned in processes:
            _start_process(planned, groups)
        supervise(groups, timeout_s, lambda: None)


def _start_process(plan: ProcessPlan, groups: list[ProcessGroup]) -> ProcessGroup:
    """Start a process; no interrupt comes between its start and its place among the groups."""
    with defer_interrupts():
        groups.append(ProcessGroup(plan, plan.folder / "process.log"))
    return groups[-1]
