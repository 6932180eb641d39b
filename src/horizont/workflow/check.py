"""Settings checked against what there is: data sets and networks, before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.config.system import (
    FRAMEWORKS,
    System,
    check_compiler,
    framework_info,
    installed_version,
)
from horizont.config.topology import Topology
from horizont.data.catalogue import dataset_info
from horizont.errors import UserError
from horizont.launchers.emulated import unavailable_reason
from horizont.networks.catalogue import network_for
from horizont.workflow.paths import Paths


def load_study(paths: Paths) -> Study:
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
            check_compiler(system)
        _check_variant_inputs(study, system)
    _check_file_inputs(study)
    _check_theory_notebooks(study, paths)
    return study


def _check_theory_notebooks(study: Study, paths: Paths) -> None:
    """Refuse a notebook that explains and is not there, wherever there are notebooks."""
    known = sorted(path.stem for path in paths.notebooks.glob("theory-*.ipynb"))
    for name in study.chapters:
        if known and name not in known:
            raise UserError("chapters", name, known)


def _check_variant_inputs(study: Study, system: System) -> None:
    """Refuse a build that is not for a workload of the study."""
    if not system.variant_info.images_only:
        return
    for name in study.equivalence.workloads:
        if dataset_info(study.workload(name).dataset).kind == "text":
            raise UserError("system", system.name, f"{system.base_name} where {name} reads a text")


def _check_file_inputs(study: Study) -> None:
    """Refuse to read a text from files: its format is a single long line of words."""
    for name, settings in study.experiments.items():
        for workload in settings.workloads:
            if dataset_info(study.workload(workload).dataset).kind != "text":
                continue
            for system in settings.systems:
                if any(each["input"].from_files for each in settings.expand(system, workload)):
                    allowed = f"memory where {workload} reads a text"
                    raise UserError(f"experiments.{name}.sweep.input.source", "files", allowed)


def skip_reason(run: Run) -> str:
    """Tell why a run cannot be made here; nothing if it can.

    Emulated hosts whose links and processors are not limited can be done without: see
    :func:`grounded`.
    """
    if installed_version(run.system.framework) is None:
        return f"{run.system.framework} is not installed"
    return unavailable_reason(run.topology)


def with_local_fallback(run: Run) -> Run:
    """Put a run on the machine's own address if it cannot have emulated hosts and can do without.

    What it then is stands in its record: the engine `local`.
    """
    topology = run.topology
    bound = not topology.link.is_unlimited or topology.cpus_per_host is not None
    if bound or not unavailable_reason(topology):
        return run
    kept = {"workers", "servers", "threads", "sharding"}
    return run.model_copy(update={"topology": Topology(**topology.model_dump(include=kept))})


FEATURES_MODULE = "horizont.frameworks.features"
QUERY_TIMEOUT_S = 120.0

#: By these names its versions are asked to print what they compute.
ONEDNN_VERBOSE_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")


def query_features() -> dict[str, Any]:
    """Ask every framework for its features.

    Returns
    -------
    dict
        ``date`` of asking, and by framework what it answered: ``version`` and ``features``, or
        ``failed`` with the reason.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as side_by_side:
        answers = dict(zip(FRAMEWORKS, side_by_side.map(_query_framework, FRAMEWORKS), strict=True))
    return {"date": date.today().isoformat(), **answers}


def _query_framework(framework: str) -> dict[str, Any]:
    command = [framework_info(framework).interpreter, "-m", FEATURES_MODULE, framework]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT_S,
            check=False,
            env={**os.environ, **dict.fromkeys(ONEDNN_VERBOSE_VARIABLES, "1")},
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {QUERY_TIMEOUT_S:g} s"}
    lines = done.stdout.splitlines()
    answers = [line for line in lines if line.startswith('{"framework"')]
    if done.returncode or not answers:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        return {"failed": last}
    answered: dict[str, Any] = json.loads(answers[-1])
    answered["features"]["onednn"] = _onednn_convolution(lines)
    return answered


def _onednn_convolution(lines: list[str]) -> dict[str, Any]:
    """Find out from what oneDNN says of itself which passes of a convolution it computed."""
    said = [line for line in lines if "_verbose," in line and ",convolution," in line]
    passes = [name for name in ("forward", "backward") if any(name in line for line in said)]
    asked = "a convolution, forward and backward, with ONEDNN_VERBOSE=1"
    return {"available": bool(passes), "query": asked, "passes": passes}
