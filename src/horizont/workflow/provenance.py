"""What a result depends on besides its settings: versions, machine, network, code and data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import horizont
from horizont.config.interpreters import Interpreter
from horizont.config.run import Run
from horizont.config.system import (
    FRAMEWORKS,
    framework_devices,
    framework_interpreter,
    installed_version,
)
from horizont.config.workload import Workload
from horizont.data.prepared import DatasetDescription
from horizont.launchers import LAUNCHERS
from horizont.launchers.base import get_launcher
from horizont.monitoring.environment import machine_type
from horizont.networks.catalogue import network_for
from horizont.records.provenance import code_fingerprint, imported_files

PACKAGE_FOLDER = Path(horizont.__file__).parent

_NOT_INSTALLED = "not installed"

#: Imported by a run, but without influence on it. The catalogue imports every network; the one
#: that is trained has a fingerprint of its own.
_WITHOUT_INFLUENCE = ("horizont.networks.catalogue", "horizont.records.format1")

#: Imported by a worker process, but executed by the comparator only.
_COMPARATOR_ONLY = (
    "horizont.training.trace",
    "horizont.training.trace_setup",
    "horizont.training.mutations",
    "horizont.training.defective_trainers",
    "horizont.config.mutations",
)


def run_provenance(run: Run, dataset: DatasetDescription) -> dict[str, str]:
    """Return what a run depends on, by name."""
    interpreter = framework_interpreter(run.system.framework)
    interpreter = interpreter or Interpreter(python=_NOT_INSTALLED, packages={})
    provenance = {
        "version": installed_version(run.system.framework) or _NOT_INSTALLED,
        "numpy": interpreter.packages.get("numpy", _NOT_INSTALLED),
        "python": interpreter.python,
        "machine": machine_type(),
        "network": _network_fingerprint(run.workload, dataset),
        "code": _fingerprint(run_files(run)),
        "data": hash_fields(dataset.sha256),
    }
    if run.topology.device != "cpu":
        devices = framework_devices(run.system.framework)
        names = ", ".join(devices.names[: run.topology.workers])
        provenance["device"] = f"{names}; CUDA {devices.cuda}"
    if versions := run.system.package_versions:
        provenance["packages"] = ", ".join(f"{name} {found}" for name, found in versions.items())
    return provenance


def run_files(run: Run) -> tuple[Path, ...]:
    """Return the files that a run executes, in all of its processes.

    These are files of Horizont, and of the packages of framework and launcher if they are others.
    """
    without = {*_WITHOUT_INFLUENCE, *_COMPARATOR_ONLY}
    if run.record_updates == "none":
        without.add("horizont.launchers.update_history")
    if run.topology.device == "cpu":
        without |= {"horizont.monitoring.gpu", f"{FRAMEWORKS[run.system.framework]}.cuda"}
    if run.system.architecture != "mpi":
        without.add(f"{FRAMEWORKS[run.system.framework]}.mpi")
    entries = [
        "horizont.launchers.execute",
        LAUNCHERS[run.topology.launcher],
        *_training_modules(run.system.framework),
    ]
    # Programs of their own, which no import names.
    if run.sampler_hz:
        entries.append("horizont.monitoring.sampler")
    if run.topology.link.latency_ms:
        entries.append("horizont.launchers.latency_link")
    if "aligned_clocks" in get_launcher(run.topology.launcher).capabilities:
        entries.append("horizont.launchers.agent.__main__")
    return _imported_files(tuple(entries), frozenset(without))


@cache  # the code of a running process does not change
def _imported_files(entries: tuple[str, ...], without: frozenset[str]) -> tuple[Path, ...]:
    names = {entry.split(".")[0] for entry in entries} - {"horizont"}
    packages = [PACKAGE_FOLDER, *map(_package_path, names)]
    return tuple(imported_files(entries, packages, without))


def _package_path(name: str) -> Path:
    """Return the folder of a top-level package, or the file of a top-level module."""
    spec = find_spec(name)
    assert spec is not None
    folders = spec.submodule_search_locations
    return Path(folders[0] if folders else str(spec.origin))


@cache
def _fingerprint(files: tuple[Path, ...]) -> str:
    return code_fingerprint(files)


def hash_fields(values: Mapping[str, str]) -> str:
    """Return a hash of named texts, sixteen hexadecimal digits."""
    text = "\n".join(f"{name}={values[name]}" for name in sorted(values))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def certificate_provenance(
    workload: Workload, dataset: DatasetDescription, frameworks: list[str]
) -> dict[str, str]:
    """Return what a certificate depends on, by name: network, optimizer, versions and code."""
    provenance = {
        "network": _network_fingerprint(workload, dataset),
        "optimizer": hash_fields({"optimizer": repr(workload.optimizer)}),
    }
    for framework in frameworks:
        files = _imported_files(_training_modules(framework), frozenset(_WITHOUT_INFLUENCE))
        provenance[f"{framework} version"] = installed_version(framework) or _NOT_INSTALLED
        provenance[f"{framework} code"] = _fingerprint(files)
    return provenance


def _training_modules(framework: str) -> tuple[str, ...]:
    """Return the modules that a process with a framework starts from."""
    package = FRAMEWORKS[framework]
    return "horizont.training.__main__", f"{package}.adapter", f"{package}.info"


def _network_fingerprint(workload: Workload, dataset: DatasetDescription) -> str:
    network = network_for(workload, dataset.shape, dataset.classes)
    return hash_fields({"network": repr(network)})
