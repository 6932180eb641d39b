"""A run as a list of processes: who, where, with which words and surroundings. Starts nothing."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from horizont.config.jobs import Endpoints, TraceJob, WorkerJob
from horizont.config.run import Run
from horizont.config.system import RoleName, variant_environment

WORKER_MODULE = "horizont.training"
JOB_FILE = "job.json"
PROGRESS_FILE = "progress"

#: Roles in the order in which they are started.
START_ORDER: tuple[RoleName, ...] = ("scheduler", "server", "worker", "chief")


@dataclass(frozen=True)
class ProcessPlan:
    """A process before it is started.

    Attributes
    ----------
    environment
        Variables set beside those of the launcher.
    folder
        Its working directory.
    job
        Written into the folder before it starts; none if its words say all.
    passive
        Whether it serves until it is ended; the run is over without it.
    """

    name: str
    host: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    job: WorkerJob | TraceJob | None
    is_service: bool = False


@dataclass(frozen=True)
class RunPlan:
    """All processes of a run, in the order in which they are started.

    Attributes
    ----------
    folder
        The record in the making.
    start_line
        The file that says that all have warmed up and hosts are held to their shares; none if
        nobody waits for it.
    """

    run: Run
    folder: Path
    processes: tuple[ProcessPlan, ...]
    start_barrier: Path | None = None

    @property
    def participants(self) -> int:
        """How many of the processes count their steps: those that train or lead."""
        return sum(not planned.is_service for planned in self.processes)


def role_assignment(run: Run) -> list[tuple[RoleName, int, str]]:
    """List role, rank and host of each process; ranks are dealt to the hosts in turn.

    Scheduler and chief, of which there is one, share the first worker's host.
    """
    counts: dict[RoleName, int] = {
        "worker": run.topology.workers,
        "server": run.topology.servers,
        "scheduler": 1,
        "chief": 1,
    }
    roles = {"worker", *run.system.info.roles}
    hosts = {"server": run.topology.server_hosts}
    seated: list[tuple[RoleName, int, str]] = []
    for role in START_ORDER:
        if role in roles:
            places = hosts.get(role, run.topology.worker_hosts)
            seated += [(role, rank, places[rank % len(places)]) for rank in range(counts[role])]
    return seated


def _start_barrier(run: Run, folder: Path) -> Path | None:
    """Name the file before which nobody makes a bare step, if anybody has to wait.

    Workers have to that would otherwise race ahead of each other: those that wait for each other
    at every step, and those that are led, start together by themselves. And everybody has to
    until the hosts are held to their shares. After an incident somebody might wait for ever, for
    want of the lost one.
    """
    races = run.system.sync == "async" and "worker" not in run.system.info.service_roles
    if run.fault is None and (races or run.topology.cpus_per_host is not None):
        return folder / "processes" / "started"
    return None


def plan_run(
    run: Run,
    folder: Path,
    data_folder: Path,
    addresses: list[str],
    files_folder: Path | None = None,
) -> RunPlan:
    """Plan the processes of a run.

    Parameters
    ----------
    folder
        The record in the making.
    places
        Where each seat may listen, `address:port`, in the order of :func:`seats`.
    files_folder
        The data set in its official format, if it is read from there.
    """
    seated = role_assignment(run)
    by_role: dict[str, list[str]] = {}
    for (role, _, _), place in zip(seated, addresses, strict=True):
        by_role.setdefault(role, []).append(place)
    endpoints = Endpoints(**{role: tuple(where) for role, where in by_role.items()})
    start_line = _start_barrier(run, folder)
    processes = []
    for role, rank, host in seated:
        name = f"{role}-{rank}"
        own = folder / "processes" / name
        passive = role in run.system.info.service_roles
        job = WorkerJob(
            run=run,
            role=role,
            rank=rank,
            endpoints=endpoints,
            data_folder=data_folder,
            folder=own,
            progress=own / PROGRESS_FILE,
            files_folder=files_folder,
            start_barrier=start_line,
        )
        processes.append(
            _worker_process(job, own, run.topology.threads, host=host, is_service=passive)
        )
    return RunPlan(run=run, folder=folder, processes=tuple(processes), start_barrier=start_line)


def _worker_process(
    job: WorkerJob | TraceJob,
    folder: Path,
    threads: int,
    *,
    host: str = "127.0.0.1",
    is_service: bool = False,
) -> ProcessPlan:
    return ProcessPlan(
        name=folder.name,
        host=host,
        argv=(sys.executable, "-m", WORKER_MODULE, str(folder / JOB_FILE)),
        # What a framework keeps for itself goes when the folder goes.
        environment={
            **thread_environment(threads),
            **variant_environment(job.variant),
            "TMPDIR": str(folder),
        },
        folder=folder,
        job=job,
        is_service=is_service,
    )


def plan_trace(job: TraceJob) -> ProcessPlan:
    """Plan the one process of a comparator's job."""
    return _worker_process(job, job.folder, job.threads)


def thread_environment(threads: int) -> dict[str, str]:
    """Tell the variables that hold every numerical library to the given threads."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        # No accelerator: the study compares processors.
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
    }
