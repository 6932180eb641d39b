"""A run as a list of processes: roles, hosts, command lines, environment. Starts nothing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from horizont.config.framework import RoleName
from horizont.config.interpreters import (
    DEVICE_ORDER,
    VISIBLE_DEVICES,
    import_variables,
    visible_device,
)
from horizont.config.jobs import Endpoints, TraceJob, WorkerJob
from horizont.config.run import Run
from horizont.config.system import framework_python, variant_info
from horizont.wording import counted

WORKER_MODULE = "horizont.training"
JOB_FILE = "job.json"
PROGRESS_FILE = "progress"
EVENTS_FILE = "events.jsonl"

#: Roles in the order in which they are started.
START_ORDER: tuple[RoleName, ...] = ("scheduler", "server", "worker", "chief")


@dataclass(frozen=True)
class ProcessPlan:
    """A process before it is started.

    Attributes
    ----------
    environment
        Variables in addition to those of the launcher.
    folder
        The working directory, below which the process writes all its files.
    job
        Written to `folder` before the start; None if the command line says everything.
    is_service
        Whether the process serves until it is stopped; the run ends without waiting for it.
    """

    name: str
    host: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    job: WorkerJob | TraceJob | None
    is_service: bool = False

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files and folders that the process reads: its job and the data set."""
        if self.job is None:
            return ()
        files_folder = self.job.files_folder if isinstance(self.job, WorkerJob) else None
        files = (self.job.data_folder, files_folder)
        return (self.folder / JOB_FILE, *(path for path in files if path is not None))


@dataclass(frozen=True)
class RunPlan:
    """All processes of a run, in the order in which they are started.

    Attributes
    ----------
    start_barrier
        A file that the launcher creates when all processes have warmed up and the CPU quotas
        apply; None if no process waits for it.
    """

    run: Run
    processes: tuple[ProcessPlan, ...]
    start_barrier: Path | None = None

    @property
    def participants(self) -> int:
        """Number of processes that train or coordinate, and so count their steps."""
        return sum(not plan.is_service for plan in self.processes)


def role_assignment(run: Run) -> list[tuple[RoleName, int, str]]:
    """List role, rank and host of each process; hosts are assigned to the ranks in turn.

    Scheduler and chief, of which there is one, run on the host of the first server; on that of the
    first worker if there are no servers.
    """
    counts: dict[RoleName, int] = {
        "worker": run.topology.workers,
        "server": run.topology.servers,
        "scheduler": 1,
        "chief": 1,
    }
    roles = {"worker", *run.system.info.roles}
    assignment: list[tuple[RoleName, int, str]] = []
    for role in START_ORDER:
        if role in roles:
            is_worker = role == "worker"
            hosts = run.topology.worker_hosts if is_worker else run.topology.server_hosts
            assignment += [(role, rank, hosts[rank % len(hosts)]) for rank in range(counts[role])]
    return assignment


def _start_barrier(run: Run, folder: Path) -> Path | None:
    """Return the file for which timed steps have to wait, if they have to.

    Asynchronous workers would otherwise start ahead of each other; workers that wait for each
    other at every step, or for a coordinator, start together anyway. All workers have to wait
    until the CPU quotas apply. With a fault there is no barrier: a process might wait forever for
    one that was lost.
    """
    is_racing = run.system.sync == "async" and "worker" not in run.system.info.service_roles
    if run.fault is None and (is_racing or run.topology.cpus_per_host is not None):
        return folder / "processes" / "started"
    return None


def plan_run(
    run: Run,
    folder: Path,
    data_folder: Path,
    addresses: list[str],
    files_folder: Path | None = None,
) -> RunPlan:
    """Plan the processes of a run, which write to the `folder` of the unfinished record.

    Each process listens on an address, ``address:port``, in the order of `role_assignment`.
    `files_folder` has the data set in its official format, if the input pipeline reads files.
    """
    assignment = role_assignment(run)
    by_role: dict[str, list[str]] = {}
    for (role, _, _), address in zip(assignment, addresses, strict=True):
        by_role.setdefault(role, []).append(address)
    endpoints = Endpoints(**{role: tuple(listed) for role, listed in by_role.items()})
    start_barrier = _start_barrier(run, folder)
    plans = []
    for role, rank, host in assignment:
        process_folder = folder / "processes" / f"{role}-{rank}"
        job = WorkerJob(
            run=run,
            role=role,
            rank=rank,
            endpoints=endpoints,
            data_folder=data_folder,
            folder=process_folder,
            progress=process_folder / PROGRESS_FILE,
            files_folder=files_folder,
            start_barrier=start_barrier,
        )
        plans.append(_worker_process(job, run.system.framework, run.topology.threads, host))
    return RunPlan(run=run, processes=tuple(plans), start_barrier=start_barrier)


def plan_trace(job: TraceJob) -> ProcessPlan:
    """Plan the process of a job of the comparator."""
    return _worker_process(job, job.framework, job.threads)


def _worker_process(
    job: WorkerJob | TraceJob, framework: str, threads: int, host: str = "localhost"
) -> ProcessPlan:
    python = framework_python(framework)
    return ProcessPlan(
        name=job.folder.name,
        host=host,
        argv=(python, "-m", WORKER_MODULE, str(job.folder / JOB_FILE)),
        environment={
            **thread_environment(threads),
            **device_environment(job),
            **variant_info(framework, job.variant).environment,
            # Temporary files of the framework are removed with the folder.
            "TMPDIR": str(job.folder),
            **import_variables(python),
        },
        folder=job.folder,
        job=job,
        is_service=isinstance(job, WorkerJob) and job.role in job.run.system.info.service_roles,
    )


def restarted_plan(plan: ProcessPlan) -> ProcessPlan:
    """Return the plan of a restarted process: same role, rank and endpoints, another folder."""
    assert isinstance(plan.job, WorkerJob)
    folder = plan.folder.with_name(f"{plan.folder.name}-restarted")
    job = plan.job.model_copy(update={"folder": folder, "progress": folder / PROGRESS_FILE})
    argv = (*plan.argv[:-1], str(folder / JOB_FILE))
    return replace(plan, name=folder.name, argv=argv, folder=folder, job=job)


def thread_environment(threads: int) -> dict[str, str]:
    """Return the variables that set the number of threads of all numerical libraries."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        # A GPU is used only where the topology asks for it.
        VISIBLE_DEVICES: "",
        "PYTHONUNBUFFERED": "1",
    }


def device_environment(job: WorkerJob | TraceJob) -> dict[str, str]:
    """Return the variables that give a worker a GPU of its own; none on the CPU."""
    if job.device == "cpu":
        return {}
    rank = job.rank if isinstance(job, WorkerJob) else 0
    return {**DEVICE_ORDER, VISIBLE_DEVICES: visible_device(rank)}


def format_plan(
    run: Run, data_folder: Path | None = None, files_folder: Path | None = None, label: str = ""
) -> str:
    """Format the processes of a run as text; no hosts, ports or record have to exist.

    The label is that of the run, by default of its system and block.
    """
    addresses = [f"{host}:PORT" for _, _, host in role_assignment(run)]
    dataset = data_folder or Path("data", "prepared", run.workload.dataset)
    plan = plan_run(run, Path("RECORD"), dataset, addresses, files_folder)
    topology = run.topology.model_dump(exclude_defaults=True, exclude={"launcher"})
    settings = "".join(f", {name} {value}" for name, value in topology.items())
    lines = [
        f"{label or f'{run.workload_name} {run.system.name}, block {run.block + 1}'}: "
        f"{counted(len(plan.processes), 'process')}, launcher {run.topology.launcher}{settings}"
    ]
    for process in plan.processes:
        assert isinstance(process.job, WorkerJob)
        variables = [f"{name}={shlex.quote(value)}" for name, value in process.environment.items()]
        kind = "service" if process.is_service else "participant"
        lines += [
            f"{process.name}: role {process.job.role}, rank {process.job.rank}, {kind}, "
            f"host {process.host}",
            f"  command:     {shlex.join(process.argv)}",
            f"  environment: {' '.join(variables)}",
            f"  reads:       {', '.join(map(str, process.inputs))}",
            f"  writes:      {process.folder}",
        ]
    if plan.start_barrier is not None:
        lines.append(f"timed steps wait for {plan.start_barrier}")
    return "\n".join(lines)
