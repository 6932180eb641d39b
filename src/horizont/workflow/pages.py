"""The pages of experiments, for notebooks."""

from __future__ import annotations

from horizont.config.base import parse_config
from horizont.config.study import read_study
from horizont.data.prepared import DatasetDescription, read_description
from horizont.reporting.page import ExperimentPage
from horizont.workflow.measure import load_records, run_experiment
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.publish import certificate_status, publish
from horizont.workflow.reference import open_pack


def open_page(
    experiment: str, workload: str, *, reference: bool = False, is_view: bool = False
) -> ExperimentPage:
    """Open the page of an experiment on a workload, after executing the runs without a record.

    Parameters
    ----------
    reference
        Open the page of its packed records instead, which executes and publishes nothing.

    Raises
    ------
    UserError
        If a setting is wrong, the records cannot be written, or there is no intact pack.
    """
    paths = study_paths()
    if reference:
        return _open_reference_page(experiment, workload, paths, is_view)
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


def _open_reference_page(
    experiment: str, workload: str, paths: Paths, is_view: bool
) -> ExperimentPage:
    pack, study = open_pack(experiment, paths)
    dataset = study.workload(workload).dataset
    return ExperimentPage(
        study=study,
        experiment=experiment,
        workload=workload,
        dataset=parse_config(DatasetDescription, pack.manifest.datasets[dataset], dataset),
        records=pack.records(workload),
        certificate=pack.manifest.certificates[workload],
        publish=lambda: None,
        is_view=is_view,
    )


def open_view(experiment: str, workload: str, *, reference: bool = False) -> ExperimentPage:
    """Open the page of a view of an experiment.

    Parameters
    ----------
    reference
        Open that of its packed records.

    Raises
    ------
    UserError
        If some of its runs have no record, or there is no intact pack.
    """
    return open_page(experiment, workload, reference=reference, is_view=True)
