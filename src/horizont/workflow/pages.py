"""The pages of experiments, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from horizont.config.study import read_study
from horizont.data.prepared import read_description
from horizont.records.record import Record
from horizont.reporting.page import ExperimentPage
from horizont.workflow.measure import load_records, run_experiment
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.publish import certificate_status, publish


def open_page(experiment: str, workload: str) -> ExperimentPage:
    """Open the page of an experiment on a workload, after executing the runs without a record.

    Raises
    ------
    UserError
        If a setting is wrong or the records cannot be written.
    """
    paths = study_paths()
    return _page(experiment, workload, run_experiment(experiment, workload, paths), paths)


def open_view(experiment: str, workload: str) -> ExperimentPage:
    """Open the page of a view of an experiment, which needs the records of all its runs.

    Raises
    ------
    UserError
        If some run has no record.
    """
    paths = study_paths()
    records = load_records(experiment, workload, paths)
    return _page(experiment, workload, records, paths, is_view=True)


def _page(
    experiment: str,
    workload: str,
    records: Sequence[Record],
    paths: Paths,
    *,
    is_view: bool = False,
) -> ExperimentPage:
    study = read_study(paths.params)
    return ExperimentPage(
        study=study,
        experiment=experiment,
        workload=workload,
        dataset=read_description(paths.prepared(study.workload(workload).dataset)),
        records=records,
        certificate=certificate_status(workload, paths),
        publish=lambda: publish(experiment, workload, records),
        is_view=is_view,
    )
