"""Experiments: their runs on every workload, their notebooks, and the views of their records."""

from __future__ import annotations

import shutil
from pathlib import Path

from horizont.config.experiment import Experiment
from horizont.config.study import Study, read_study
from horizont.launchers.plan import format_plan
from horizont.records.record import Record
from horizont.workflow.check import load_study, with_local_fallback
from horizont.workflow.measure import run_experiment
from horizont.workflow.notebooks import run_notebook
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.reference import open_pack


def execute_experiment(name: str, paths: Paths | None = None) -> list[Path]:
    """Execute the notebook of an experiment's kind for each of its workloads.

    The notebook runs what has no record yet, and publishes the metrics.

    Raises
    ------
    UserError
        If the study has no such experiment.
    NotebookFailed
        If a cell raises; metrics of earlier workloads are published.
    """
    paths = paths or study_paths()
    experiment = read_study(paths.params).experiment(name)
    _empty_folder(paths.executed_notebooks / name)
    for published in (paths.metrics(name), paths.plots(name)):
        published.unlink(missing_ok=True)
    return [
        _execute(experiment.kind, name, workload, paths, paths.experiment_page(name, workload))
        for workload in experiment.workloads
    ]


def execute_views(name: str, paths: Paths | None = None) -> list[Path]:
    """Execute the notebooks of an experiment's views for each of its workloads.

    Raises
    ------
    UserError
        If the study has no such experiment, or some of its runs have no record.
    NotebookFailed
        If a cell raises.
    """
    paths = paths or study_paths()
    experiment = read_study(paths.params).experiment(name)
    _empty_folder(paths.views / name)
    return [
        _execute(notebook, name, workload, paths, paths.view_page(name, workload, view))
        for view, notebook in _view_notebooks(experiment)
        for workload in experiment.workloads
    ]


def execute_reference_pages(name: str, paths: Paths | None = None) -> list[Path]:
    """Execute the notebooks of an experiment and of its views on its packed records.

    Raises
    ------
    UserError
        If there is no intact pack.
    NotebookFailed
        If a cell raises.
    """
    paths = paths or study_paths()
    _, study = open_pack(name, paths)
    experiment = study.experiment(name)
    notebooks = [("", str(experiment.kind)), *_view_notebooks(experiment)]
    shutil.rmtree(paths.reference_pages / name, ignore_errors=True)
    return [
        run_notebook(
            notebook,
            {"experiment": name, "workload": workload, "reference": True},
            paths,
            paths.reference_page(name, workload, view),
        )
        for workload in experiment.workloads
        for view, notebook in notebooks
    ]


def _view_notebooks(experiment: Experiment) -> list[tuple[str, str]]:
    """Return view and notebook of each view of an experiment."""
    return [(str(view), f"views/{view}") for view in experiment.views]


def _execute(notebook: str, experiment: str, workload: str, paths: Paths, out: Path) -> Path:
    return run_notebook(notebook, {"experiment": experiment, "workload": workload}, paths, out)


def _empty_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def run_on_workloads(name: str, workload: str, paths: Paths) -> list[Record]:
    """Run an experiment on one of its workloads, or on all if `workload` is empty."""
    selected = _selected_workloads(load_study(paths), name, workload)
    return [record for each in selected for record in run_experiment(name, each, paths)]


def print_plans(name: str, workload: str, paths: Paths) -> None:
    """Print the plan of each run: roles, hosts, commands, environment, files; start nothing."""
    study = load_study(paths)
    for each in _selected_workloads(study, name, workload):
        for run in study.runs(name, each):
            print(format_plan(with_local_fallback(run)))


def _selected_workloads(study: Study, name: str, workload: str) -> tuple[str, ...]:
    return (workload,) if workload else study.experiment(name).workloads
