"""Single processes without a record: the comparator's jobs."""

from __future__ import annotations

from pathlib import Path

from horizont.cluster.group import ProcessGroup, ending_all
from horizont.cluster.plan import plan_trace
from horizont.cluster.watch import watch
from horizont.spec import TraceJob


def run_alone(job: TraceJob, folder: Path, deadline_s: float) -> None:
    """Do a job in a fresh process and wait for it.

    Parameters
    ----------
    folder
        The process's working directory; its log lies there.

    Raises
    ------
    RunFailed
        If the process ends badly or takes too long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    groups: list[ProcessGroup] = []
    with ending_all(groups):
        groups.append(ProcessGroup(plan_trace(job, folder), folder / "process.log"))
        watch(groups, deadline_s, lambda: None)
