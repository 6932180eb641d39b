"""Processes without a record: the comparator's jobs, side by side, for no time is taken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from horizont.cluster.group import ProcessGroup, ending_all
from horizont.cluster.plan import plan_trace
from horizont.cluster.watch import RunFailed, check_end, wait_for_any
from horizont.spec import TraceJob


def run_side_by_side(
    jobs: Sequence[TraceJob], deadline_s: float, ended: Callable[[TraceJob], None]
) -> None:
    """Do each job in a fresh process, with as many at once as there are cores.

    Parameters
    ----------
    jobs
        A process works in the folder of its job; its log lies there.
    ended
        Called with each job that is done.

    Raises
    ------
    RunFailed
        If a process ends badly, or they take too long together. None is left running.
    """
    end_s = time.monotonic() + deadline_s
    waiting, running = list(jobs), list[ProcessGroup]()
    groups: list[ProcessGroup] = []
    with ending_all(groups):
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                running.append(_started(waiting.pop(0)))
                groups.append(running[-1])
            for group in wait_for_any(running, end_s - time.monotonic()):
                running.remove(group)
                check_end(group)
                ended(_job_of(group))
            if time.monotonic() > end_s:
                names = ", ".join(_job_of(group).trainer for group in running)
                raise RunFailed(f"deadline of {deadline_s:g} s passed with {names} still running")


def _started(job: TraceJob) -> ProcessGroup:
    job.folder.mkdir(parents=True, exist_ok=True)
    return ProcessGroup(plan_trace(job), job.folder / "process.log")


def _job_of(group: ProcessGroup) -> TraceJob:
    assert isinstance(group.planned.job, TraceJob)
    return group.planned.job
