"""Where the wall time of the study goes: measured training, start-up by part, a no-op repro.

Reads the records of the settings at hand; run the study first.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pandas as pd

from horizont.analysis.runs import startup_times
from horizont.config.study import read_study
from horizont.records.record import Record
from horizont.workflow.measure import find_planned_records
from horizont.workflow.paths import study_paths
from horizont.workflow.repro import stage_environment


def run() -> None:
    """Print shares, start-up times and the no-op time."""
    paths = study_paths()
    study = read_study(paths.params)
    records: list[Record] = []
    for experiment in study.experiments:
        for workload in study.workloads_of(experiment):
            found, missing = find_planned_records(study, experiment, workload, paths)
            records += [record for record in found if record.ok]
            if missing:
                print(f"  {missing} runs of {experiment} {workload} are not measured")
    if records:
        _shares(records)
        _startup(records)
    _noop(paths.root)


def _shares(records: list[Record]) -> None:
    wall_s = sum(record.result.wall_s or 0.0 for record in records)
    by_kind = pd.concat([_kinds(record) for record in records]).groupby("kind")["spent_s"].sum()
    print(f"  {len(records)} runs, {wall_s:.0f} s of wall time, of which")
    for kind, spent_s in by_kind.items():
        print(f"    {kind:<14}{spent_s:7.0f} s  {spent_s / wall_s:6.1%}")


def _kinds(record: Record) -> pd.DataFrame:
    """Tell the wall time of each kind of step, as the mean over the workers."""
    steps = record.steps().to_pandas()
    sums = steps.groupby(["kind", "worker"])["step_s"].sum().groupby("kind").mean()
    return sums.rename("spent_s").reset_index()


def _startup(records: list[Record]) -> None:
    table = startup_times(records).pivot(index="system", columns="phase", values="mean_s")
    print("  start-up in seconds, by part:")
    for line in table.round(2).to_string().splitlines():
        print(f"    {line}")


def _noop(root) -> None:  # type: ignore[no-untyped-def]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=root,
        env=stage_environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    spent_s = time.monotonic() - started
    idle = done.returncode == 0 and "Running stage" not in done.stdout
    print(f"  dvc repro: {spent_s:.1f} s, {'nothing to do' if idle else 'NOT a no-op'}")
