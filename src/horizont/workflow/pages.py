"""The pages of experiments, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from horizont.config.base import parse_config
from horizont.config.study import read_study
from horizont.data.prepared import DatasetDescription, read_description
from horizont.records.record import Record
from horizont.reporting.page import ExperimentPage
from horizont.workflow.measure import load_records, run_experiment
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.publish import certificate_status, publish
from horizont.workflow.reference import open_pack, packed_experiments

#: What a page says that reports the reference although it was not asked to.
_PACKED_ONLY = (
    "The study of this folder has no experiment {0}. This page reports the experiment {0} of the "
    "reference, from the records in reports/reference, and executes nothing."
)


def open_page(
    experiment: str, workload: str, *, reference: bool = False, is_view: bool = False
) -> ExperimentPage:
    """Open the page of an experiment on a workload, after executing the runs without a record.

    Parameters
    ----------
    reference
        Open the page of its packed records instead, which executes and publishes nothing. So does
        the page of an experiment that only the reference has, which says so.
    is_view
        Execute nothing, and refuse an experiment some of whose runs have no record.
    """
    paths = study_paths()
    records: Sequence[Record]
    is_packed_only = not reference and _is_packed_only(experiment, paths)
    reference = reference or is_packed_only
    if reference:
        pack, study = open_pack(experiment, paths)
        name = study.workload(workload).dataset
        dataset = parse_config(DatasetDescription, pack.manifest.datasets[name], name)
        records, certificate = pack.records(workload), pack.manifest.certificates[workload]
    else:
        records = (load_records if is_view else run_experiment)(experiment, workload, paths)
        study = read_study(paths.params)
        dataset = read_description(paths.prepared(study.workload(workload).dataset))
        certificate = certificate_status(workload, paths)
    return ExperimentPage(
        study=study,
        experiment=experiment,
        workload=workload,
        dataset=dataset,
        records=records,
        certificate=certificate,
        publish=lambda: None if reference else publish(experiment, workload, records),
        is_view=is_view,
        note=_PACKED_ONLY.format(experiment) if is_packed_only else "",
    )


def _is_packed_only(experiment: str, paths: Paths) -> bool:
    """Whether the reference has an experiment that the study does not have."""
    is_own = experiment in read_study(paths.params).experiments
    return not is_own and experiment in packed_experiments(paths)


def open_view(experiment: str, workload: str, *, reference: bool = False) -> ExperimentPage:
    """Open the page of a view of an experiment, which executes nothing."""
    return open_page(experiment, workload, reference=reference, is_view=True)
