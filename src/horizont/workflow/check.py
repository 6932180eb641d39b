"""Checks of the settings against data sets, networks, launchers and installed frameworks."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import date
from typing import Any

from horizont.config.base import error_context
from horizont.config.experiment import Experiment
from horizont.config.interpreters import import_variables
from horizont.config.run import Run
from horizont.config.study import Study, read_study
from horizont.config.system import (
    FRAMEWORKS,
    System,
    compiler_command,
    framework_devices,
    framework_python,
    has_compiler,
    unusable_reason,
)
from horizont.config.topology import Topology
from horizont.config.workload import Workload
from horizont.data.catalogue import DatasetInfo
from horizont.data.own import find_info, find_own
from horizont.data.preparation import split_sizes
from horizont.errors import UserError
from horizont.launchers.base import check_run, check_topology, get_launcher, unavailable_reason
from horizont.networks.catalogue import network_for
from horizont.workflow.paths import Paths

FEATURES_MODULE = "horizont.frameworks.features"
QUERY_TIMEOUT_S = 120.0

#: oneDNN logs what it computes if one of these is set, depending on its version.
ONEDNN_VERBOSE_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")


def read_settings(paths: Paths) -> Study:
    """Read the settings, and check that the folders and files that they name exist."""
    study = read_study(paths.params)
    if study.data.mirror and not study.data.mirror.is_dir():
        raise UserError("data.mirror", str(study.data.mirror), "an existing folder")
    for name, settings in study.data.own.items():
        own = find_own(study.data, name, paths.root)
        if settings.path is not None and own is not None and not own.path.exists():
            own.info()  # raises an error that says what is needed there
    return study


def load_study(paths: Paths) -> Study:
    """Read the settings, and check that every data set, network and variant is available."""
    study = read_settings(paths)
    _check_verified(study)
    largest = {}
    images_to_test = {}
    texts = set()
    for name, workload in study.workloads.items():
        info = _find_info(study, name, paths)
        with error_context(f"workloads.{name}"):
            network_for(workload, info.shape, info.classes)
            _check_kind(workload, info)
        largest[name] = _largest_batch(study, workload, info)
        if name in study.equivalence.workloads:
            _check_compared(study, name, info, largest[name])
        if info.kind == "text":
            texts.add(name)
        else:
            available = info.splits["test"]
            images_to_test[name] = min(available, study.data.test_examples or available)
    for system in study.systems():
        # Not checked by `System`, because settings and records must be readable on any machine.
        lacks_compiler = system.variant_info.needs_compiler and not has_compiler()
        if lacks_compiler and not unusable_reason(system.framework):
            allowed = f"{system.base_name}: no C++ compiler {compiler_command()!r} was found (CXX)"
            raise UserError("systems", system.name, allowed)
    for name, experiment in study.experiments.items():
        with error_context(f"experiments.{name}"):
            check_topology(experiment.topology)
        for workload_name in experiment.workloads:
            with error_context(f"experiments.{name}"), experiment.written_paths(workload_name):
                if workload_name in images_to_test:
                    _check_evaluation(experiment.on(workload_name), images_to_test[workload_name])
                runs = study.runs(name, workload_name)
                _check_runs(runs, largest[workload_name], is_text=workload_name in texts)
    notebooks = sorted(path.stem for path in paths.notebooks.glob("theory-*.ipynb"))
    for name in study.chapters:
        if notebooks and name not in notebooks:
            raise UserError("chapters", name, notebooks)
    return study


def _check_verified(study: Study) -> None:
    """Refuse mutations and a replay of a workload that is not verified.

    Not checked by `Study`, because packs of earlier versions have such settings.
    """
    verified = study.equivalence.workloads
    for field in ("mutations", "replay"):
        for name in getattr(study.equivalence, field):
            if name not in verified:
                allowed = f"those of equivalence.workloads: {', '.join(verified)}"
                raise UserError(f"equivalence.{field}", name, allowed)


def _find_info(study: Study, name: str, paths: Paths) -> DatasetInfo:
    """Return the facts of the data set of a workload.

    Errors of the files of a user's data set name its own setting.
    """
    dataset = study.workloads[name].dataset
    is_own = dataset in study.data.own
    with nullcontext() if is_own else error_context(f"workloads.{name}"):
        return find_info(study.data, dataset, paths.root)


def _check_kind(workload: Workload, info: DatasetInfo) -> None:
    """Refuse a setting for texts on images, and one for images on a text."""
    if info.kind == "image" and "time_steps" in workload.model_fields_set:
        raise UserError("time_steps", workload.time_steps, f"nothing, as {info.name} has images")
    if info.kind == "text" and workload.upscale > 1:
        raise UserError("upscale", workload.upscale, f"1, as {info.name} is a text")


def _largest_batch(study: Study, workload: Workload, info: DatasetInfo) -> int:
    """Return the number of examples, or of sequences of a text, that there are to train on."""
    examples = min(info.splits["train"], study.data.train_examples or info.splits["train"])
    return examples if info.kind == "image" else (examples - 1) // workload.time_steps


def _check_compared(study: Study, name: str, info: DatasetInfo, largest: int) -> None:
    """Refuse parts of the data, and steps of the comparator, that need more than there is."""
    if info.name not in study.data.own:
        with error_context("data"):
            split_sizes(info, study.data.train_examples, study.data.test_examples)
    batch = study.equivalence.schedule_for(name).batch
    if batch > largest:
        is_own = name in study.equivalence.overrides
        field = f"equivalence.overrides.{name}.batch" if is_own else "equivalence.batch"
        allowed = f"at most {largest}, as {info.name} has no more to train on"
        raise UserError(field, batch, allowed)


def _check_evaluation(experiment: Experiment, images: int) -> None:
    examples = experiment.evaluation.examples
    if examples > images:
        allowed = f"at most {images}, as there are no more images to test"
        raise UserError("evaluation.examples", examples, allowed)


def _check_runs(runs: Iterable[Run], largest_batch: int, *, is_text: bool) -> None:
    """Refuse what the launcher of a run does not support, and a batch larger than the data.

    Nor is a text read from files, as its official format is one line of words, or trained by a
    variant for images.
    """
    for run in runs:
        if is_text and run.system.variant_info.images_only:
            allowed = f"{run.system.base_name} where {run.workload_name} reads a text"
            raise UserError("systems", run.system.name, allowed)
        if run.global_batch > largest_batch:
            allowed = f"at most {largest_batch}, as {run.workload.dataset} has no more to train on"
            raise UserError("global_batch", run.global_batch, allowed)
        if is_text and run.input.from_files:
            allowed = f"memory where {run.workload_name} reads a text"
            raise UserError("sweep.input.source", "files", allowed)
        check_run(run)


def skip_reason(run: Run) -> str:
    """Return why a run cannot be executed on this machine; empty if it can."""
    return (
        unusable_reason(run.system.framework)
        or _missing_packages(run.system)
        or _missing_devices(run)
        or unavailable_reason(run.topology)
    )


def skipped_runs(study: Study) -> Counter[str]:
    """Count the runs of a study that this machine would skip, by reason."""
    runs = (
        with_local_fallback(run)
        for name, experiment in study.experiments.items()
        for workload in experiment.workloads
        for run in study.runs(name, workload)
    )
    return Counter(reason for run in runs if (reason := skip_reason(run)))


def _missing_packages(system: System) -> str:
    """Return that the environment of a framework lacks packages of a system; empty if not."""
    missing = [name for name in system.info.packages if name not in system.package_versions]
    return f"{system.name}: its environment lacks {', '.join(missing)}" if missing else ""


def _missing_devices(run: Run) -> str:
    """Return that a run needs more GPUs than its framework finds; empty if it does not."""
    framework, workers = run.system.framework, run.topology.workers
    if run.topology.device == "cpu":
        return ""
    count = len(framework_devices(framework).names)
    if not count:
        return f"{framework}: no CUDA device in its environment"
    if workers > count:
        return f"{framework}: {workers} workers, but {count} CUDA devices in its environment"
    return ""


def with_local_fallback(run: Run) -> Run:
    """Return the run on the local launcher if its launcher is unavailable and it can do without.

    A run with a limited link, a CPU quota or a disconnected host cannot, nor one that asks for
    other machines. The record then says ``launcher: local``.
    """
    topology = run.topology
    if "shared_clock" not in get_launcher(topology.launcher).capabilities:
        return run
    is_limited = not topology.link.is_unlimited or topology.cpus_per_host is not None
    is_disconnected = run.fault is not None and run.fault.kind == "disconnect"
    if is_limited or is_disconnected or not unavailable_reason(topology):
        return run
    shared = {"workers", "servers", "threads", "sharding"}
    return run.model_copy(update={"topology": Topology(**topology.model_dump(include=shared))})


def query_features() -> dict[str, Any]:
    """Query every framework for its features, each in its own process.

    Returns
    -------
    dict
        ``date`` of the query, and by framework ``version`` and ``features``, or ``failed`` with
        the reason.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        answers = dict(zip(FRAMEWORKS, pool.map(_query_framework, FRAMEWORKS), strict=True))
    return {"date": date.today().isoformat(), **answers}


def _query_framework(framework: str) -> dict[str, Any]:
    python = framework_python(framework)
    command = [python, "-m", FEATURES_MODULE, framework]
    verbose = dict.fromkeys(ONEDNN_VERBOSE_VARIABLES, "1")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT_S,
            check=False,
            env={**os.environ, **import_variables(python), **verbose},
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {QUERY_TIMEOUT_S:g} s"}
    lines = done.stdout.splitlines()
    answers = [line for line in lines if line.startswith('{"framework"')]
    if done.returncode or not answers:
        return {"failed": (done.stderr.strip() or "no output").splitlines()[-1]}
    answer: dict[str, Any] = json.loads(answers[-1])
    answer["features"]["onednn"] = _onednn_convolution(lines)
    return answer


def _onednn_convolution(lines: list[str]) -> dict[str, Any]:
    """Return which passes of a convolution oneDNN computed, by its own log."""
    log = [line for line in lines if "_verbose," in line and ",convolution," in line]
    passes = [name for name in ("forward", "backward") if any(name in line for line in log)]
    query = "a convolution, forward and backward, with ONEDNN_VERBOSE=1"
    return {"available": bool(passes), "query": query, "passes": passes}
