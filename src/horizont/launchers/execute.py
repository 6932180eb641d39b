"""The sampler around a run."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horizont.config.run import Run
from horizont.launchers.base import Cluster, open_cluster
from horizont.launchers.collect import summarise
from horizont.launchers.fault_injection import (
    FaultInjection,
    raise_if_incomplete,
    restarted_folders,
)
from horizont.launchers.plan import PROGRESS_FILE, ProcessPlan, RunPlan, plan_run, role_assignment
from horizont.launchers.process import ProcessGroup, terminating
from horizont.launchers.supervisor import RunFailed, supervise
from horizont.launchers.update_order import collect_updates
from horizont.monitoring.background import background_from_samples, measure_background
from horizont.monitoring.handle import SamplerClient, start_sampler
from horizont.monitoring.process_control import defer_interrupts
from horizont.monitoring.progress import read_step_count
from horizont.records.files import append_event, read_table
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import FaultReport, RunResult

#: How long to wait for the first sample, in seconds.
SAMPLER_READY_S = 20.0


class ResourceMonitor:
    """What the sampler and the look at the background found out, after the run.

    Attributes
    ----------
    background_cpu
        Share of all processors that other programs took; None if it was not watched.
    disturbed
        Whether that is enough to mark the run.
    """

    def __init__(self, sampler: SamplerClient | None) -> None:
        self._sampler = sampler
        self.background_cpu: float | None = None
        self.disturbed = False

    @property
    def add_root(self) -> Callable[[int, str], None]:
        """How to name a process that is to be followed."""
        return self._sampler.add_root if self._sampler else lambda pid, name: None

    def finish(self, record: RecordWriter) -> None:
        """Stop the sampler and look at what others did meanwhile."""
        if self._sampler is None:
            return
        outcome = self._sampler.stop()
        record.log_event("sampler_ended", reason=outcome.reason)
        if outcome.path is None:
            return
        samples = read_table(outcome.path)
        if samples.num_rows:
            load = background_from_samples(samples, os.cpu_count() or 1)
            self.background_cpu = load.cpu_fraction
            self.disturbed = load.disturbed


@contextlib.contextmanager
def monitor_resources(
    plan: RunPlan, cluster: Cluster, record: RecordWriter
) -> Iterator[ResourceMonitor]:
    """Sample the resources of what happens in the block, if the run asks for it."""
    if plan.run.sampler_hz == 0:
        resources = ResourceMonitor(None)
        load = measure_background()
        resources.background_cpu, resources.disturbed = load.cpu_fraction, load.disturbed
        yield resources
        return
    with contextlib.ExitStack() as stack:
        with defer_interrupts():
            sampler = start_sampler(record.folder, 1.0 / plan.run.sampler_hz, ready_s=0)
            stack.callback(sampler.stop)
        sampler.wait_ready(SAMPLER_READY_S)
        for name, counters in cluster.byte_counters().items():
            sampler.add_host(name, counters)
        for name, pid in cluster.helper_processes().items():
            sampler.add_root(pid, name)
        resources = ResourceMonitor(sampler)
        yield resources
        resources.finish(record)


#: Called with the steps done and the steps planned, of the slowest worker.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class RunPaths:
    """Where a run reads and writes.

    Attributes
    ----------
    store
        The folder of the finished records.
    data_folder
        The prepared data set.
    files_folder
        The same in its official format; nothing if it is not read from there.
    environment
        Facts of machine and software, written into the record.
    """

    store: Path
    data_folder: Path
    environment: dict[str, Any]
    files_folder: Path | None = None


def execute(run: Run, key: str, paths: RunPaths, on_progress: OnProgress) -> Record:
    """Start the processes of a run, watch them to the end, and keep the record.

    A run that fails leaves a record with its reason. An interrupt leaves nothing: neither a
    process nor a record in the making.

    Raises
    ------
    UserError
        If a port is taken, the hosts cannot be had, or the results folder cannot be written.
    """
    record = None
    try:
        with defer_interrupts():
            record = RecordWriter(paths.store, key)
        record.start(run, paths.environment)
        with open_cluster(run.topology, record.folder) as hosts:
            endpoints = hosts.endpoints([host for _, _, host in role_assignment(run)])
            files = paths.files_folder.resolve() if paths.files_folder else None
            data = paths.data_folder.resolve()
            plan = plan_run(run, record.folder, data, endpoints, files)
            record.log_event("planned", processes=[planned.name for planned in plan.processes])
            result = _run_plan(plan, hosts, record, on_progress)
        shutil.rmtree(record.folder / "processes", ignore_errors=True)
        return read_record(record.finish(result))
    except BaseException:
        with defer_interrupts():
            if record is not None:
                record.discard()
        raise


def _run_plan(
    plan: RunPlan, cluster: Cluster, record: RecordWriter, on_progress: OnProgress
) -> RunResult:
    """Run the plan and sum up how it went."""
    folders = [planned.folder for planned in plan.processes]
    reason = ""
    with monitor_resources(plan, cluster, record) as resources:
        started = time.monotonic()
        try:
            try:
                found = _train_to_end(plan, cluster, record, resources.add_root, on_progress)
            finally:
                wall_s = time.monotonic() - started
            if found is not None:
                record.write_fault_report(found)
                raise_if_incomplete(plan.run, found)
            if plan.run.record_updates != "none":
                collect_updates(record, folders)
        except RunFailed as failure:
            reason = str(failure)
    # The sampler has been stopped here, so its findings are known.
    record.log_event("failed" if reason else "ended", reason=reason)
    every = [*folders, *restarted_folders(folders)]
    result = summarise(record, plan.run.system, every, wall_s)
    update: dict[str, Any] = {"background_cpu": resources.background_cpu}
    update["disturbed"] = resources.disturbed
    if reason:
        update |= {"status": "failed", "reason": reason}
    return result.model_copy(update=update)


def _train_to_end(
    plan: RunPlan,
    cluster: Cluster,
    record: RecordWriter,
    add_root: Callable[[int, str], None],
    on_progress: OnProgress,
) -> FaultReport | None:
    """Start everything, watch it, and leave no process behind."""
    groups: list[ProcessGroup] = []

    def start(planned: ProcessPlan) -> ProcessGroup:
        planned.folder.mkdir(parents=True)
        append_event(planned.folder / "events.jsonl", "spawned")
        with defer_interrupts():
            log = record.folder / "logs" / f"{planned.name}.log"
            group = ProcessGroup(planned, log, cluster.command_prefix(planned.host, planned.folder))
            groups.append(group)
        add_root(group.process.pid, planned.name)
        record.log_event("started", process=planned.name, pid=group.process.pid)
        return group

    def tick() -> None:
        _report_progress(plan, cluster, on_progress)

    with terminating(groups):
        for planned in plan.processes:
            start(planned)
        if plan.run.fault is not None:
            return FaultInjection(plan, groups, start, record, cluster).run(tick)
        supervise(groups, plan.run.timeout_s, tick, plan.run.stall_timeout_s)
        return None


def _report_progress(plan: RunPlan, cluster: Cluster, on_progress: OnProgress) -> None:
    """Tell how far the slowest of those that count their steps has come.

    With the first step of the slowest the start is over, and hosts are held to their shares: a
    fraction of a processor would take minutes to load a framework, which is no part of training.
    With its last warm-up step those that wait for it may begin with their bare steps.
    """
    counted = [read_step_count(planned.folder / PROGRESS_FILE) for planned in plan.processes]
    known = [progress for progress in counted if progress is not None]
    if known:
        slowest = min(known, key=lambda progress: progress.done)
        if slowest.done and len(known) >= plan.participants:
            cluster.apply_cpu_quota()
            if plan.start_barrier is not None and slowest.done >= plan.run.steps.warmup:
                plan.start_barrier.touch()
        on_progress(slowest.done, slowest.planned)
