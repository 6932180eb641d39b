"""The records of the runs that the settings plan, without making any."""

from __future__ import annotations

from horizont.data import About
from horizont.data.about import read_about
from horizont.errors import UserError
from horizont.pipeline.feasible import grounded
from horizont.pipeline.ground import run_ground
from horizont.pipeline.paths import Paths, study_paths
from horizont.records import Record, find_record, run_key
from horizont.spec import Study, read_study


def recorded(experiment: str, workload: str, paths: Paths | None = None) -> list[Record]:
    """Open the records of an experiment on a workload.

    Raises
    ------
    UserError
        If some planned run has no record yet.
    """
    paths = paths or study_paths()
    records, missing = planned_records(read_study(paths.params), experiment, workload, paths)
    if missing:
        allowed = f"all of them; `horizont measure {experiment} {workload}` makes them"
        raise UserError("records", f"{missing} runs are missing", allowed)
    return records


def planned_records(
    study: Study, experiment: str, workload: str, paths: Paths
) -> tuple[list[Record], int]:
    """Open the records of the planned runs and count those that are missing."""
    runs = [grounded(run) for run in study.runs(experiment, workload)]
    about = _about(paths, runs[0].workload.dataset)
    if about is None:
        return [], len(runs)
    store = paths.records(experiment, workload)
    grounds = {
        framework: run_ground(framework, about)
        for framework in {run.system.framework for run in runs}
    }
    found = [find_record(store, run_key(run, grounds[run.system.framework])) for run in runs]
    records = [record for record in found if record is not None]
    return records, len(runs) - len(records)


def _about(paths: Paths, dataset: str) -> About | None:
    try:
        return read_about(paths.prepared(dataset))
    except UserError:
        return None
