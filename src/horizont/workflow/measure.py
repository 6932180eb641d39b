"""One measurement at a time on a machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.data.prepared import DatasetDescription, read_description
from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.monitoring.environment import describe_environment
from horizont.records.provenance import run_key
from horizont.records.record import Record, RecordWriter, find_record, read_record
from horizont.records.results import RunResult
from horizont.workflow.check import load_study, skip_reason, with_local_fallback
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.prepare import ensure_prepared, prepare_files
from horizont.workflow.progress import Progress
from horizont.workflow.provenance import run_provenance

#: The file that whoever measures on this machine holds: one for all users and settings.
LOCK_FILE = Path("/tmp/horizont.lock")


def _open_lock() -> int:
    """Open the file to be locked, for which reading is enough.

    Where everybody may make files, the kernel refuses to make one that another user has made.
    """
    try:
        return os.open(LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(LOCK_FILE, os.O_RDONLY | os.O_CREAT, 0o644)


@contextlib.contextmanager
def exclusive_measurement(on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine for a measurement, waiting until it is free.

    The kernel gives the lock back however the holder ends.

    Parameters
    ----------
    waiting
        Told once, in a sentence, if another measurement is under way.
    """
    with open(_open_lock(), encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait("waiting for another measurement on this machine to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load_records(experiment: str, workload: str, paths: Paths | None = None) -> list[Record]:
    """Open the records of an experiment on a workload.

    Raises
    ------
    UserError
        If some planned run has no record yet.
    """
    paths = paths or study_paths()
    records, missing = find_planned_records(read_study(paths.params), experiment, workload, paths)
    if missing:
        allowed = f"all of them; `horizont run {experiment} {workload}` runs the missing ones"
        raise UserError("records", f"{missing} runs are missing", allowed)
    return records


def find_planned_records(
    study: Study, experiment: str, workload: str, paths: Paths
) -> tuple[list[Record], int]:
    """Open the records of the planned runs and count those that are missing."""
    runs = [with_local_fallback(run) for run in study.runs(experiment, workload)]
    about = _dataset_description(paths, runs[0].workload.dataset)
    if about is None:
        return [], len(runs)
    store = paths.records(experiment, workload)
    found = [find_record(store, run_key(run, run_provenance(run, about))) for run in runs]
    records = [record for record in found if record is not None]
    return records, len(runs) - len(records)


def _dataset_description(paths: Paths, dataset: str) -> DatasetDescription | None:
    try:
        return read_description(paths.prepared(dataset))
    except UserError:
        return None


def run_experiment(experiment: str, workload: str, paths: Paths | None = None) -> list[Record]:
    """Measure what has not been measured yet, and open the records of all planned runs.

    Parameters
    ----------
    experiment
        The name of an experiment in the study's settings, such as `local`.
    workload
        The name of a workload in the study's settings.

    Returns
    -------
    list
        A record for each planned run, in the order in which they were made; failed runs and
        runs of frameworks that are not installed among them.

    Raises
    ------
    UserError
        If a setting is wrong or the results folder cannot be written.
    """
    paths = paths or study_paths()
    study = load_study(paths)
    planned = [with_local_fallback(run) for run in study.runs(experiment, workload)]
    runs = randomise_blocks(planned, study.seed)
    about = ensure_prepared(study, runs[0].workload.dataset, paths)
    return execute_runs(runs, about, paths)


def execute_runs(runs: Sequence[Run], dataset: DatasetDescription, paths: Paths) -> list[Record]:
    """Make the runs of an experiment on a workload one after the other, each if it is missing."""
    RecordWriter.remove_abandoned(paths.records(runs[0].experiment, runs[0].workload_name))
    campaign = ExperimentRunner(paths, dataset, Progress("run", len(runs)))
    try:
        return [campaign.load_or_run(run) for run in runs]
    finally:
        campaign.progress.close()


def randomise_blocks(runs: Sequence[Run], seed: int) -> list[Run]:
    """Put the systems of each block into a random order, the same for the same seed."""
    ordered: list[Run] = []
    for block, members in groupby(runs, key=lambda run: run.block):
        group = list(members)
        name = zlib.crc32(f"{group[0].experiment}/{group[0].workload_name}".encode())
        order = np.random.default_rng([seed, block, name]).permutation(len(group))
        ordered += [group[place] for place in order]
    return ordered


class ExperimentRunner:
    """The runs of one experiment on one data set."""

    def __init__(self, paths: Paths, dataset: DatasetDescription, progress: Progress) -> None:
        self.paths = paths
        self.dataset = dataset
        self.progress = progress

    def load_or_run(self, run: Run) -> Record:
        """Open the record of a run; make it first if there is none that went well."""
        store = self.paths.records(run.experiment, run.workload_name)
        ground = run_provenance(run, self.dataset)
        key = run_key(run, ground)
        self.progress.start(run_label(run))
        if found := self._find_final_record(store, key):
            return found
        if reason := skip_reason(run):
            self.progress.finish("skipped", executed=False)
            return self._write_skipped(run, key, store, reason)
        with exclusive_measurement(self.progress.message):
            # Somebody else may have made it while we waited.
            return self._find_final_record(store, key) or self._execute(run, key, store, ground)

    def _find_final_record(self, store: Path, key: str) -> Record | None:
        """Find a record with which there is nothing left to do."""
        found = find_record(store, key)
        if found is None or not found.is_final:
            return None
        self.progress.finish("found finished", executed=False)
        return found

    def _write_skipped(self, run: Run, key: str, store: Path, reason: str) -> Record:
        """Leave a record that says why there was no run."""
        writer = RecordWriter(store, key)
        writer.start(run, describe_environment())
        return read_record(writer.finish(RunResult(status="skipped", reason=reason)))

    def _execute(self, run: Run, key: str, store: Path, provenance: dict[str, str]) -> Record:
        environment = {**describe_environment(), "provenance": provenance}
        prepared = self.paths.prepared(self.dataset.name)
        place = RunPaths(store, prepared, environment, prepare_files(run, self.paths))
        record = execute(run, key, place, self.progress.update)
        self.progress.finish(outcome_label(record))
        return record


def run_label(run: Run) -> str:
    """Name a run where its progress is shown."""
    happens = f", {run.fault.name}" if run.fault is not None else ""
    happens += f", {run.input.label(run.system.framework)}" if run.input.from_files else ""
    return f"{run.workload_name} {run.system.name}{happens}, block {run.block + 1}"


def outcome_label(record: Record) -> str:
    """Tell in a few words how a run went."""
    if not record.ok and not record.is_final:
        return f"FAILED: {record.result.reason}"
    if record.run.fault is not None:
        return f"{record.run.fault.name}: {record.result.reason or 'went on to its end'}"
    disturbed = ", disturbed" if record.result.disturbed else ""
    return f"{record.result.wall_s:.1f} s{disturbed}"
