"""Measuring an experiment: all its runs, in randomised blocks, each one once."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from horizont.cluster import Place, execute
from horizont.data import About
from horizont.measure import describe_environment
from horizont.pipeline.check import checked_study
from horizont.pipeline.feasible import grounded, obstacle
from horizont.pipeline.ground import run_ground
from horizont.pipeline.lock import measuring_alone
from horizont.pipeline.paths import Paths, study_paths
from horizont.pipeline.prepare import ensure_data, files_for
from horizont.pipeline.progress import Progress
from horizont.records import Record, RecordWriter, Result, find_record, read_record, run_key
from horizont.spec import Run


def measure(experiment: str, workload: str, paths: Paths | None = None) -> list[Record]:
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
    study = checked_study(paths)
    planned = [grounded(run) for run in study.runs(experiment, workload)]
    runs = interleaved(planned, study.seed)
    about = ensure_data(study, runs[0].workload.dataset, paths)
    return carry_out(runs, about, paths)


def carry_out(runs: Sequence[Run], about: About, paths: Paths) -> list[Record]:
    """Make the runs of an experiment on a workload one after the other, each if it is missing."""
    RecordWriter.sweep(paths.records(runs[0].experiment, runs[0].workload_name))
    campaign = Campaign(paths, about, Progress("run", len(runs)))
    try:
        return [campaign.record(run) for run in runs]
    finally:
        campaign.progress.close()


def interleaved(runs: Sequence[Run], seed: int) -> list[Run]:
    """Put the systems of each block into a random order, the same for the same seed."""
    ordered: list[Run] = []
    for block, members in groupby(runs, key=lambda run: run.block):
        group = list(members)
        name = zlib.crc32(f"{group[0].experiment}/{group[0].workload_name}".encode())
        order = np.random.default_rng([seed, block, name]).permutation(len(group))
        ordered += [group[place] for place in order]
    return ordered


class Campaign:
    """The runs of one experiment on one data set."""

    def __init__(self, paths: Paths, about: About, progress: Progress) -> None:
        self.paths = paths
        self.about = about
        self.progress = progress

    def record(self, run: Run) -> Record:
        """Open the record of a run; make it first if there is none that went well."""
        store = self.paths.records(run.experiment, run.workload_name)
        ground = run_ground(run.system.framework, self.about)
        key = run_key(run, ground)
        self.progress.begin(title(run))
        if found := self._finished(store, key):
            return found
        if reason := obstacle(run):
            self.progress.end("skipped", counted=False)
            return self._skip(run, key, store, reason)
        with measuring_alone(self.progress.remark):
            # Somebody else may have made it while we waited.
            return self._finished(store, key) or self._make(run, key, store, ground)

    def _finished(self, store: Path, key: str) -> Record | None:
        """Find a record with which there is nothing left to do."""
        found = find_record(store, key)
        if found is None or not found.settled:
            return None
        self.progress.end("found finished", counted=False)
        return found

    def _skip(self, run: Run, key: str, store: Path, reason: str) -> Record:
        """Leave a record that says why there was no run."""
        writer = RecordWriter(store, key)
        writer.start(run, describe_environment())
        return read_record(writer.finish(Result(status="skipped", reason=reason)))

    def _make(self, run: Run, key: str, store: Path, ground: dict[str, str]) -> Record:
        environment = {**describe_environment(), "ground": ground}
        prepared = self.paths.prepared(self.about.name)
        place = Place(store, prepared, environment, files_for(run, self.paths))
        record = execute(run, key, place, self.progress.step)
        self.progress.end(outcome(record))
        return record


def title(run: Run) -> str:
    """Name a run where its progress is shown."""
    happens = f", {run.incident.name}" if run.incident is not None else ""
    happens += f", {run.input.title(run.system.framework)}" if run.input.from_files else ""
    return f"{run.workload_name} {run.system.name}{happens}, block {run.block + 1}"


def outcome(record: Record) -> str:
    """Tell in a few words how a run went."""
    if not record.ok and not record.settled:
        return f"FAILED: {record.result.reason}"
    if record.run.incident is not None:
        return f"{record.run.incident.name}: {record.result.reason or 'went on to its end'}"
    disturbed = ", disturbed" if record.result.disturbed else ""
    return f"{record.result.wall_s:.1f} s{disturbed}"
