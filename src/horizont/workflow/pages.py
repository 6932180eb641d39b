"""The pages of experiments, for notebooks."""

from __future__ import annotations

from horizont.config.study import read_study
from horizont.data.prepared import read_description
from horizont.reporting.page import ExperimentPage
from horizont.workflow.measure import load_records, run_experiment
from horizont.workflow.paths import study_paths
from horizont.workflow.publish import certificate_status, publish


def open_page(experiment: str, workload: str, *, is_view: bool = False) -> ExperimentPage:
    """Open the page of an experiment on a workload, after executing the runs without a record.

    Raises
    ------
    UserError
        If a setting is wrong or the records cannot be written.
    """
    paths = study_paths()
    records = (load_records if is_view else run_experiment)(experiment, workload, paths)
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


def open_view(experiment: str, workload: str) -> ExperimentPage:
    """Open the page of a view of an experiment.

    Raises
    ------
    UserError
        If some of its runs have no record.
    """
    return open_page(experiment, workload, is_view=True)
