"""One run from its plan to its record."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horizont.cluster.collect import summarise
from horizont.cluster.group import ProcessGroup, ending_all
from horizont.cluster.hosts import Hosts, open_hosts
from horizont.cluster.ordeal import Ordeal, check_aftermath, second_lives
from horizont.cluster.plan import PROGRESS_FILE, Plan, PlannedProcess, plan_run, seats
from horizont.cluster.resources import sampling
from horizont.cluster.updates import collect_updates
from horizont.cluster.watch import RunFailed, watch
from horizont.measure.interrupts import interrupts_later
from horizont.measure.progress import read_progress
from horizont.records import Aftermath, Record, RecordWriter, Result, append_event, read_record
from horizont.spec import Run

#: Called with the steps done and the steps planned, of the slowest worker.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Place:
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


def execute(run: Run, key: str, place: Place, on_progress: OnProgress) -> Record:
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
        with interrupts_later():
            record = RecordWriter(place.store, key)
        record.start(run, place.environment)
        with open_hosts(run.topology, record.folder) as hosts:
            endpoints = hosts.endpoints([host for _, _, host in seats(run)])
            files = place.files_folder.resolve() if place.files_folder else None
            data = place.data_folder.resolve()
            plan = plan_run(run, record.folder, data, endpoints, files)
            record.event("planned", processes=[planned.name for planned in plan.processes])
            result = _carry_out(plan, hosts, record, on_progress)
        shutil.rmtree(record.folder / "processes", ignore_errors=True)
        return read_record(record.finish(result))
    except BaseException:
        with interrupts_later():
            if record is not None:
                record.discard()
        raise


def _carry_out(plan: Plan, hosts: Hosts, record: RecordWriter, on_progress: OnProgress) -> Result:
    """Run the plan and sum up how it went."""
    folders = [planned.folder for planned in plan.processes]
    reason = ""
    with sampling(plan, hosts, record) as resources:
        started = time.monotonic()
        try:
            try:
                found = _train(plan, hosts, record, resources.add_root, on_progress)
            finally:
                wall_s = time.monotonic() - started
            if found is not None:
                record.aftermath(found)
                check_aftermath(plan.run, found)
            if plan.run.record_updates != "none":
                collect_updates(record, folders)
        except RunFailed as failure:
            reason = str(failure)
    # The sampler has been stopped here, so its findings are known.
    record.event("failed" if reason else "ended", reason=reason)
    every = [*folders, *second_lives(folders)]
    result = summarise(record, plan.run.system, every, wall_s)
    update: dict[str, Any] = {"background_cpu": resources.background_cpu}
    update["disturbed"] = resources.disturbed
    if reason:
        update |= {"status": "failed", "reason": reason}
    return result.model_copy(update=update)


def _train(
    plan: Plan,
    hosts: Hosts,
    record: RecordWriter,
    add_root: Callable[[int, str], None],
    on_progress: OnProgress,
) -> Aftermath | None:
    """Start everything, watch it, and leave no process behind."""
    groups: list[ProcessGroup] = []

    def start(planned: PlannedProcess) -> ProcessGroup:
        planned.folder.mkdir(parents=True)
        append_event(planned.folder / "events.jsonl", "spawned")
        with interrupts_later():
            log = record.folder / "logs" / f"{planned.name}.log"
            group = ProcessGroup(planned, log, hosts.enter(planned.host, planned.folder))
            groups.append(group)
        add_root(group.process.pid, planned.name)
        record.event("started", process=planned.name, pid=group.process.pid)
        return group

    def tick() -> None:
        _look(plan, hosts, on_progress)

    with ending_all(groups):
        for planned in plan.processes:
            start(planned)
        if plan.run.incident is not None:
            return Ordeal(plan, groups, start, record, hosts).watch(tick)
        watch(groups, plan.run.deadline_s, tick, plan.run.patience_s)
        return None


def _look(plan: Plan, hosts: Hosts, on_progress: OnProgress) -> None:
    """Tell how far the slowest of those that count their steps has come.

    With the first step of the slowest the start is over, and hosts are held to their shares: a
    fraction of a processor would take minutes to load a framework, which is no part of training.
    With its last warm-up step those that wait for it may begin with their bare steps.
    """
    counted = [read_progress(planned.folder / PROGRESS_FILE) for planned in plan.processes]
    known = [progress for progress in counted if progress is not None]
    if known:
        slowest = min(known, key=lambda progress: progress.done)
        if slowest.done and len(known) >= plan.counting:
            hosts.hold_to_shares()
            if plan.start_line is not None and slowest.done >= plan.run.steps.warmup:
                plan.start_line.touch()
        on_progress(slowest.done, slowest.planned)
