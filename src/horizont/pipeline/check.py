"""Settings checked against what there is: data sets and networks, before anything starts."""

from __future__ import annotations

from horizont.data import dataset_info
from horizont.errors import UserError
from horizont.networks import network_for
from horizont.pipeline.paths import Paths
from horizont.spec import (
    BUILDS,
    PLAIN,
    Study,
    System,
    check_compiler,
    installed_version,
    read_study,
)


def checked_study(paths: Paths) -> Study:
    """Read the settings, look up each data set and network, and what the builds need.

    Raises
    ------
    UserError
        With the path of the first wrong setting.
    """
    study = read_study(paths.params)
    for name, workload in study.workloads.items():
        try:
            info = dataset_info(workload.dataset)
            network_for(workload, info.shape, info.classes)
        except UserError as error:
            raise UserError(f"workloads.{name}.{error.field}", error.value, error.allowed) from None
    for system in study.systems():
        if installed_version(system.framework):
            check_compiler(system.plain_name, system.build)
        _check_inputs(study, system)
    _check_files(study)
    _check_theory(study, paths)
    return study


def _check_theory(study: Study, paths: Paths) -> None:
    """Refuse a notebook that explains and is not there, wherever there are notebooks."""
    known = sorted(path.stem for path in paths.notebooks.glob("theory-*.ipynb"))
    for name in study.theory:
        if known and name not in known:
            raise UserError("theory", name, known)


def _check_inputs(study: Study, system: System) -> None:
    """Refuse a build that is not for a workload of the study."""
    if system.build == PLAIN or not BUILDS[system.build].images_only:
        return
    for name in study.study:
        if dataset_info(study.workload(name).dataset).kind == "text":
            raise UserError("system", system.name, f"{system.plain_name} where {name} reads a text")


def _check_files(study: Study) -> None:
    """Refuse to read a text from files: its format is a single long line of words."""
    for name, settings in study.experiments.items():
        for workload in study.workloads_of(name):
            if dataset_info(study.workload(workload).dataset).kind != "text":
                continue
            for system in settings.systems:
                if any(each["input"].from_files for each in settings.variants(system, workload)):
                    allowed = f"memory where {workload} reads a text"
                    raise UserError(f"{name}.vary.input.source", "files", allowed)
