"""Execution of an experiment: its runs in randomised blocks, one at a time, each once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import psutil

from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.config.system import framework_devices, framework_interpreter
from horizont.data.prepared import DatasetDescription, read_description
from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.monitoring import gpu
from horizont.monitoring.environment import describe_devices, describe_environment
from horizont.records.provenance import run_key
from horizont.records.record import Record, RecordWriter, find_record, read_record
from horizont.records.results import RunResult
from horizont.wording import shorten
from horizont.workflow.blocks import RepeatedBlocks
from horizont.workflow.check import load_study, skip_reason, with_local_fallback
from horizont.workflow.paths import Paths
from horizont.workflow.prepare import ensure_prepared, prepare_files
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import run_provenance
from horizont.workflow.run_labels import run_label

#: Locked during a measurement: one file for all users and studies of the machine.
LOCK_FILE = Path("/tmp/horizont.lock")


def run_experiment(experiment: str, workload: str, paths: Paths) -> list[Record]:
    """Execute the runs that have no record yet, and open the records of all planned runs.

    The records are in the order of execution, and include failed runs and runs of frameworks that
    are not installed.
    """
    study = load_study(paths)
    planned = [with_local_fallback(run) for run in study.runs(experiment, workload)]
    runs = randomise_blocks(planned, study.seed)
    dataset = ensure_prepared(study, runs[0].workload.dataset, paths)
    return execute_runs(runs, dataset, paths, study)


def execute_runs(
    runs: Sequence[Run], dataset: DatasetDescription, paths: Paths, study: Study | None = None
) -> list[Record]:
    """Execute the runs of an experiment on a workload that have no record yet, in order.

    If the study has an anchor, what drifts or is disturbed is repeated.
    """
    store = paths.records(runs[0].experiment, runs[0].workload_name)
    RecordWriter.remove_abandoned(store)
    progress = Progress("run", len(runs))

    def execute_run(run: Run, folder: Path) -> Record:
        own = dataset
        if run.workload.dataset != dataset.name:  # an anchor
            assert study is not None
            own = ensure_prepared(study, run.workload.dataset, paths)
        progress.start(run_label(run, study))
        return _load_or_run(run, own, paths, progress, folder)

    def is_complete(run: Run) -> bool:
        return _final_record(store, run_key(run, run_provenance(run, dataset))) is not None

    try:
        if study is None or study.anchor is None:
            return [execute_run(run, store) for run in runs]
        anchor = study.anchor if study.experiment(runs[0].experiment).anchored else None
        blocks = RepeatedBlocks(study, anchor, store, execute_run, is_complete, progress)
        records = []
        for _, block in groupby(runs, key=lambda run: run.block):
            records += blocks.execute_block(list(block))
        return records
    finally:
        progress.close()


def _load_or_run(
    run: Run, dataset: DatasetDescription, paths: Paths, progress: Progress, store: Path
) -> Record:
    """Open the final record of a run in a folder; execute the run if there is none."""
    provenance = run_provenance(run, dataset)
    key = run_key(run, provenance)
    if record := _final_record(store, key):
        progress.finish("available", executed=False)
        return record
    if reason := skip_reason(run):
        progress.finish(f"skipped, {reason}", executed=False, skipped=True)
        writer = RecordWriter(store, key)
        writer.start(run, describe_environment())
        return read_record(writer.finish(RunResult(status="skipped", reason=reason)))
    with exclusive_measurement(progress.message):
        # Another process may have executed it while this one waited.
        if record := _final_record(store, key):
            progress.finish("available", executed=False)
            return record
        interpreter = framework_interpreter(run.system.framework)
        assert interpreter is not None  # otherwise the run was skipped
        environment = describe_environment(interpreter.python, interpreter.packages)
        environment["provenance"] = provenance
        if run.topology.device != "cpu":
            environment["devices"] = describe_devices(framework_devices(run.system.framework))
            if run.sampler_hz and (problem := gpu.unavailable_reason()):
                progress.message(problem)
        files = prepare_files(run, paths)
        run_paths = RunPaths(store, paths.prepared(dataset.name), environment, files)
        record = execute(run, key, run_paths, progress.update)
    progress.finish(_outcome_label(record))
    return record


def _final_record(store: Path, key: str) -> Record | None:
    record = find_record(store, key)
    return record if record is not None and record.is_final else None


def _outcome_label(record: Record) -> str:
    if record.failed_unexpectedly:
        return f"FAILED: {record.result.reason}"
    if record.run.fault is not None:
        return f"{record.run.fault.name}: {record.result.reason or 'completed'}"
    disturbed = ", disturbed" if record.result.disturbed else ""
    return f"{record.result.wall_s:.1f} s{disturbed}"


def randomise_blocks(runs: Sequence[Run], seed: int) -> list[Run]:
    """Shuffle the systems of each block, reproducibly."""
    name = zlib.crc32(f"{runs[0].experiment}/{runs[0].workload_name}".encode())
    ordered: list[Run] = []
    for block, group in groupby(runs, key=lambda run: run.block):
        members = list(group)
        order = np.random.default_rng([seed, block, name]).permutation(len(members))
        ordered += [members[index] for index in order]
    return ordered


def load_records(experiment: str, workload: str, paths: Paths) -> list[Record]:
    """Open the records of an experiment on a workload; refuse one with a run without a record."""
    records, missing = find_planned_records(read_study(paths.params), experiment, workload, paths)
    if missing:
        allowed = f"all of them; run `horizont run {experiment} {workload}` first"
        raise UserError("records", f"{missing} runs have none", allowed)
    return records


def find_planned_records(
    study: Study, experiment: str, workload: str, paths: Paths
) -> tuple[list[Record], int]:
    """Open the records of the planned runs, and count the runs without one."""
    runs = [with_local_fallback(run) for run in study.runs(experiment, workload)]
    try:
        dataset = read_description(paths.prepared(runs[0].workload.dataset))
    except UserError:
        return [], len(runs)
    store = paths.records(experiment, workload)
    keys = [run_key(run, run_provenance(run, dataset)) for run in runs]
    records = [record for key in keys if (record := find_record(store, key)) is not None]
    return records, len(runs) - len(records)


@contextlib.contextmanager
def exclusive_measurement(on_wait: Callable[[str], None]) -> Iterator[None]:
    """Lock the machine for a measurement, after any other has ended.

    If another one is running, `on_wait` is called once with a message. The kernel releases the lock
    however the process ends.
    """
    with open(_open_lock(), encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait(f"waiting for another measurement on this machine to end{describe_holder()}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def describe_holder() -> str:
    """Return the process that has the lock, in brackets; empty if it is not known."""
    number = LOCK_FILE.stat().st_ino
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        _, kind, _, _, pid, file, *_ = line.split()  # a process that waits has an arrow as its kind
        if kind == "FLOCK" and file.endswith(f":{number}"):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(int(pid))
                command = shorten(" ".join(Path(word).name for word in process.cmdline()[1:]))
                return f" (process {pid} in {process.cwd()}: {command})"
    return ""


def _open_lock() -> int:
    """Open the lock file for reading, which suffices to lock it.

    In a world-writable folder the kernel refuses to open another user's file with O_CREAT.
    """
    try:
        return os.open(LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(LOCK_FILE, os.O_RDONLY | os.O_CREAT, 0o644)
