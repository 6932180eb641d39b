"""What the report is about: the reference if it has packs, otherwise the study of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horizont.analysis.answer import Answer, answers
from horizont.analysis.reproduction import Results
from horizont.analysis.runs import by_workload, group_by
from horizont.config.study import Study, read_study
from horizont.data.prepared import read_description
from horizont.monitoring.environment import describe_environment
from horizont.records.record import Record
from horizont.workflow.measure import find_planned_records
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.publish import certificate_status
from horizont.workflow.reference import open_packs, open_reference

#: Experiments by similarity to the published cluster, the most similar first.
NEAREST_EXPERIMENTS = ("cluster", "distributed")


@dataclass(frozen=True)
class ReportedStudy:
    """A study with its results, for pages about all of its experiments.

    Attributes
    ----------
    sources
        ``real`` or ``synthetic``, by data set.
    environments
        The machines and the versions, as of `describe_environment`, by the runs executed there.
    """

    study: Study
    results: Results
    sources: Mapping[str, str]
    environments: Mapping[str, Mapping[str, Any]]
    is_reference: bool

    @property
    def records(self) -> Sequence[Record]:
        """The records of all runs."""
        return self.results.records

    def answers(self) -> list[Answer]:
        """Find the best systems of each workload, in the experiments without a sweep."""
        groups = group_by(
            self.records, lambda record: self.study.experiment(record.run.experiment).kind
        )
        fixed = [record for kind in ("training", "faults") for record in groups.get(kind, [])]
        swept = {
            record.run.workload_name
            for record in groups.get("sweep", [])
            if not record.run.system.is_local
        }
        return answers(fixed, self.results.certificates, swept)

    def nearest_records(self) -> dict[str, list[Record]]:
        """Select, by workload, the experiment that is most similar to the published set-ups."""
        groups = by_workload(self.records)
        nearest: dict[str, list[Record]] = {}
        for workload in self.study.equivalence.workloads:
            found = (groups.get((name, workload)) for name in NEAREST_EXPERIMENTS)
            if records := next(filter(None, found), None):
                nearest[workload] = records
        return nearest


def own_results(paths: Paths | None = None) -> Results:
    """Open the existing records of all planned runs, with the status of their certificates."""
    paths = paths or study_paths()
    study = read_study(paths.params)
    records = [
        record
        for name, experiment in study.experiments.items()
        for workload in experiment.workloads
        for record in find_planned_records(study, name, workload, paths)[0]
    ]
    workloads = study.equivalence.workloads
    return Results(records, {name: certificate_status(name, paths) for name in workloads})


def open_own_study(paths: Paths | None = None) -> ReportedStudy:
    """Open the study of a folder, as far as it was measured."""
    paths = paths or study_paths()
    study = read_study(paths.params)
    sources = {
        name: read_description(paths.prepared(name)).source
        for name in study.datasets
        if paths.prepared(name).exists()
    }
    environments = {"all": describe_environment()}
    return ReportedStudy(study, own_results(paths), sources, environments, False)


def open_reported_study(paths: Paths | None = None, *, kind: str = "") -> ReportedStudy:
    """Open the study that the report is about: the reference, if it has packs.

    If a kind is given, the reference also needs an experiment of this kind.
    """
    paths = paths or study_paths()
    packs = open_packs(paths)
    studies = {name: study for name, (_, study) in packs.items()}
    kinds = {study.experiment(name).kind for name, study in studies.items()}
    if not packs or (kind and kind not in kinds):
        return open_own_study(paths)
    results = open_reference(paths)
    sources = {
        name: description["source"]
        for pack, _ in packs.values()
        for name, description in pack.manifest.datasets.items()
    }
    study = _merged_study(studies)
    return ReportedStudy(study, results, sources, _environments(study, results.records), True)


def _environments(study: Study, records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Return each machine and the versions of all runs on it, by the titles of the experiments.

    A workload stands beside an experiment that was executed on several machines.
    """
    machines: dict[str, set[str]] = {}
    groups: dict[str, list[Record]] = {}
    for record in records:
        machines.setdefault(record.run.experiment, set()).add(record.machine)
        groups.setdefault(record.machine, []).append(record)
    environments = {}
    for group in groups.values():
        titles = dict.fromkeys(
            study.experiment_title(experiment)
            + (f" ({workload})" if len(machines[experiment]) > 1 else "")
            for experiment, workload in by_workload(group)
        )
        packages = {
            name: version
            for record in group
            for name, version in record.environment["packages"].items()
            if version
        }
        environments["; ".join(titles)] = {**group[0].environment, "packages": packages}
    return environments


def _merged_study(studies: Mapping[str, Study]) -> Study:
    """Return the settings of packed experiments as those of one study, in the order of the latest.

    Packs may be of different times, so each experiment and its workloads have their own settings.
    """
    latest = list(studies.values())[-1]
    names = [name for name in dict.fromkeys([*latest.experiments, *studies]) if name in studies]
    workloads = {
        name: study.workload(name)
        for experiment, study in studies.items()
        for name in study.experiment(experiment).workloads
    }
    compared = tuple(name for name in latest.equivalence.workloads if name in workloads)
    return latest.model_copy(
        update={
            "experiments": {name: studies[name].experiments[name] for name in names},
            "workloads": {**latest.workloads, **workloads},
            "equivalence": latest.equivalence.model_copy(update={"workloads": compared}),
        }
    )
