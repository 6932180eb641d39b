"""Watching the processes of a run until it is over, fails, or has taken too long."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import psutil

from horizont.cluster.group import ProcessGroup, wait_for
from horizont.cluster.signs import Signs

#: How often the watcher looks up from waiting, in seconds.
TICK_S = 0.2


class RunFailed(Exception):
    """A run that did not do what it was asked to, with the reason in a sentence."""


def watch(
    groups: list[ProcessGroup],
    deadline_s: float,
    tick: Callable[[], None],
    patience_s: float | None = None,
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
        Time without any sign of life (see :mod:`horizont.cluster.signs`) after which the run
        counts as hung; nothing leaves that to the deadline.

    Raises
    ------
    RunFailed
        If a process ends badly, the run hangs, or the deadline passes.
    """
    end = time.monotonic() + deadline_s
    signs = Signs(groups)
    running = list(groups)
    while any(not group.planned.passive for group in running):
        ended = wait_for_any(running, TICK_S)
        # What was killed comes first: the errors of the others may come of it.
        for group in sorted(ended, key=lambda group: group.reap() != -signal.SIGKILL):
            running.remove(group)
            check_end(group)
        if time.monotonic() > end:
            raise RunFailed(f"deadline of {deadline_s:g} s passed with {those(running)}")
        if patience_s is not None and signs.quiet_s() > patience_s:
            raise RunFailed(f"no progress for {patience_s:g} s with {those(running)}")
        tick()


def wait_for_any(groups: list[ProcessGroup], timeout_s: float) -> list[ProcessGroup]:
    """Wait until some leader has ended or the time is up, and tell who has ended."""
    return wait_for(groups, timeout_s, enough=1)


def check_end(group: ProcessGroup) -> None:
    """Collect a process that has ended, and raise :class:`RunFailed` if it ended badly."""
    if group.reap() != 0:
        raise RunFailed(how_it_ended(group))


def how_it_ended(group: ProcessGroup) -> str:
    """Tell name, status and last error of a process that was collected."""
    status = group.reap()
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    words = group.last_words()
    return f"{group.name} {how}" + (f": {words}" if words else "")


def those(running: list[ProcessGroup]) -> str:
    """Name the processes that still run, and which of them somebody has stopped."""
    names = [group.name + (" (stopped)" if _stopped(group) else "") for group in running]
    return f"{', '.join(names)} still running"


def _stopped(group: ProcessGroup) -> bool:
    try:
        return bool(psutil.Process(group.process.pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False
