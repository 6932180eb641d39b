"""Processes without a record: of the comparator, the theory and others, for no time is taken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from horizont.cluster.group import ProcessGroup, ending_all
from horizont.cluster.plan import PlannedProcess
from horizont.cluster.watch import RunFailed, check_end, wait_for_any, watch
from horizont.measure.interrupts import interrupts_later


def run_side_by_side(
    processes: Sequence[PlannedProcess],
    deadline_s: float,
    ended: Callable[[PlannedProcess], None],
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
    end_s = time.monotonic() + deadline_s
    waiting, running = list(processes), list[ProcessGroup]()
    groups: list[ProcessGroup] = []
    with ending_all(groups):
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                running.append(_start(waiting.pop(0), groups))
            for group in wait_for_any(running, end_s - time.monotonic()):
                running.remove(group)
                check_end(group)
                ended(group.planned)
            if time.monotonic() > end_s:
                names = ", ".join(group.name for group in running)
                raise RunFailed(f"deadline of {deadline_s:g} s passed with {names} still running")


def run_together(processes: Sequence[PlannedProcess], deadline_s: float) -> None:
    """Start processes that wait for each other, all at once, and wait for those that train.

    Raises
    ------
    RunFailed
        If one ends badly, or they take too long. None is left running.
    """
    groups: list[ProcessGroup] = []
    with ending_all(groups):
        for planned in processes:
            _start(planned, groups)
        watch(groups, deadline_s, lambda: None)


def _start(planned: PlannedProcess, groups: list[ProcessGroup]) -> ProcessGroup:
    """Start a process; no interrupt comes between its start and its place among the groups."""
    with interrupts_later():
        groups.append(ProcessGroup(planned, planned.folder / "process.log"))
    return groups[-1]
