"""Watching the processes of a run until it is over, fails, or has taken too long."""

from __future__ import annotations

import time
from collections.abc import Callable

from horizont.cluster.group import ProcessGroup, wait_for

#: How often the watcher looks up from waiting, in seconds.
TICK_S = 0.2


class RunFailed(Exception):
    """A run that did not do what it was asked to, with the reason in a sentence."""


def watch(groups: list[ProcessGroup], deadline_s: float, tick: Callable[[], None]) -> None:
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

    Raises
    ------
    RunFailed
        If a process ends badly or the deadline passes.
    """
    end = time.monotonic() + deadline_s
    running = list(groups)
    while any(not group.planned.passive for group in running):
        ended = wait_for_any(running, TICK_S)
        for group in ended:
            running.remove(group)
            check_end(group)
        if time.monotonic() > end:
            names = ", ".join(group.name for group in running)
            raise RunFailed(f"deadline of {deadline_s:g} s passed with {names} still running")
        tick()


def wait_for_any(groups: list[ProcessGroup], timeout_s: float) -> list[ProcessGroup]:
    """Wait until some leader has ended or the time is up, and tell who has ended."""
    return wait_for(groups, timeout_s, enough=1)


def check_end(group: ProcessGroup) -> None:
    """Collect a process that has ended, and raise :class:`RunFailed` if it ended badly."""
    status = group.reap()
    if status == 0:
        return
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    words = group.last_words()
    raise RunFailed(f"{group.name} {how}" + (f": {words}" if words else ""))
