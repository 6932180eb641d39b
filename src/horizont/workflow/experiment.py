"""Experiments: their runs on every workload, their notebooks, and the views of their records."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from horizont.config.experiment import Experiment
from horizont.config.study import read_study
from horizont.launchers.base import get_launcher
from horizont.launchers.plan import format_plan
from horizont.records.record import Record
from horizont.workflow.check import load_study, skip_reason, with_local_fallback
from horizont.workflow.measure import run_experiment
from horizont.workflow.notebooks import run_notebook
from horizont.workflow.paths import Paths, study_paths
from horizont.workflow.reference import open_pack
from horizont.workflow.run_labels import run_label


def execute_experiment(name: str, paths: Paths | None = None) -> list[Path]:
    """Execute the notebook of an experiment's kind for each of its workloads.

    The notebook runs what has no record yet, and publishes the metrics; if a cell raises, those of
    earlier workloads are published.
    """
    paths = paths or study_paths()
    experiment = read_study(paths.params).experiment(name)
    for published in (paths.metrics(name), paths.plots(name)):
        published.unlink(missing_ok=True)
    folder = paths.executed_notebooks / name
    return _execute_notebooks(folder, experiment, [""], paths)


def execute_views(name: str) -> list[Path]:
    """Execute the notebooks of an experiment's views for each of its workloads."""
    paths = study_paths()
    experiment = read_study(paths.params).experiment(name)
    return _execute_notebooks(paths.views / name, experiment, experiment.views, paths)


def execute_reference_pages(name: str) -> list[Path]:
    """Execute the notebooks of an experiment and of its views on its packed records."""
    paths = study_paths()
    experiment = open_pack(name, paths)[1].experiment(name)
    folder, views = paths.reference_pages / name, ["", *experiment.views]
    return _execute_notebooks(folder, experiment, views, paths, reference=True)


def _execute_notebooks(
    folder: Path,
    experiment: Experiment,
    views: Sequence[str],
    paths: Paths,
    *,
    reference: bool = False,
) -> list[Path]:
    """Execute the notebooks of views into a new folder; an empty view is the experiment itself."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)  # DVC expects it, even without a view
    name = folder.name
    of_reference = {"reference": True} if reference else {}
    return [
        run_notebook(
            f"views/{view}" if view else experiment.kind,
            {"experiment": name, "workload": workload, **of_reference},
            paths,
            paths.page(name, workload, view, reference=reference),
        )
        for workload in experiment.workloads
        for view in views
    ]


def run_on_workloads(name: str, workload: str, paths: Paths) -> list[Record]:
    """Run an experiment on one of its workloads, or on all if `workload` is empty."""
    workloads = (workload,) if workload else load_study(paths).experiment(name).workloads
    return [record for each in workloads for record in run_experiment(name, each, paths)]


def print_plans(name: str, workload: str, paths: Paths) -> None:
    """Print the plan of each run: roles, hosts, commands, environment, files; start nothing."""
    study = load_study(paths)
    for each in (workload,) if workload else study.experiment(name).workloads:
        for run in study.runs(name, each):
            planned = with_local_fallback(run)
            print(format_plan(planned, label=run_label(planned, study)))
            if reason := skip_reason(planned):
                print(f"skipped on this machine: {reason}")
                continue
            launcher = get_launcher(planned.topology.launcher)
            for host, command in launcher.start_commands(planned.topology).items():
                print(f"{host}: agent started by {command}")
