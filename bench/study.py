"""Where the wall time of the study goes: measured training, start-up by phase, a no-op repro.

Reads the records of the current settings; run the study first.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from horizont.analysis.runs import startup_times
from horizont.config.study import read_study
from horizont.records.record import Record
from horizont.workflow.measure import find_planned_records
from horizont.workflow.paths import study_paths
from horizont.workflow.repro import stage_environment


def run() -> None:
    """Print fractions, start-up times and the no-op time."""
    paths = study_paths()
    study = read_study(paths.params)
    records: list[Record] = []
    for experiment in study.experiments:
        for workload in study.experiment(experiment).workloads:
            planned, missing = find_planned_records(study, experiment, workload, paths)
            records += [record for record in planned if record.ok]
            if missing:
                print(f"  {missing} runs of {experiment} {workload} have no record")
    if records:
        _print_fractions(records)
        _print_startup(records)
    _print_repro(paths.root)


def _print_fractions(records: list[Record]) -> None:
    wall_s = sum(record.result.wall_s or 0.0 for record in records)
    by_kind = (
        pd.concat([_time_by_kind(record) for record in records]).groupby("kind")["time_s"].sum()
    )
    print(f"  {len(records)} runs, {wall_s:.0f} s of wall time, of which")
    for kind, time_s in by_kind.items():
        print(f"    {kind:<14}{time_s:7.0f} s  {time_s / wall_s:6.1%}")


def _time_by_kind(record: Record) -> pd.DataFrame:
    """Return the wall time of each kind of step, as the mean over the workers."""
    steps = record.steps().to_pandas()
    sums: pd.Series[float] = (
        steps.groupby(["kind", "worker"])["step_s"].sum().groupby("kind").mean()
    )
    return sums.rename("time_s").reset_index()


def _print_startup(records: list[Record]) -> None:
    table = startup_times(records).pivot(index="system", columns="phase", values="mean_s")
    print("  start-up in seconds, by phase:")
    for line in table.round(2).to_string().splitlines():
        print(f"    {line}")


def _print_repro(root: Path) -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=root,
        env=stage_environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    time_s = time.monotonic() - started
    idle = done.returncode == 0 and "Running stage" not in done.stdout
    print(f"  dvc repro: {time_s:.1f} s, {'no work' if idle else 'STAGES WERE RUN'}")
