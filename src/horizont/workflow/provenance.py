"""What a result rests on besides its settings: versions, machine, code and data."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import horizont
from horizont.config.system import FRAMEWORKS, installed_version
from horizont.config.workload import Workload
from horizont.data.prepared import DatasetDescription
from horizont.monitoring.environment import describe_environment
from horizont.networks.catalogue import network_for
from horizont.records.provenance import code_fingerprint

PACKAGE_FOLDER = Path(horizont.__file__).parent

#: The floors that decide what a training process does.
TRAINING_PACKAGES = ("config", "data", "networks", "training", "monitoring", "launchers")


def training_code_fingerprint(framework: str) -> str:
    """Fingerprint the code that decides how a framework trains here."""
    frameworks = PACKAGE_FOLDER / "frameworks"
    folders = [PACKAGE_FOLDER / floor for floor in TRAINING_PACKAGES]
    return code_fingerprint(
        [*folders, frameworks / "base.py", frameworks / FRAMEWORKS[framework].adapter]
    )


def machine_type() -> str:
    """Name the kind of machine: processor and cores. No host name."""
    cpu = describe_environment(packages=())["cpu"]
    return f"{cpu['model']} x{len(cpu['affinity'])}"


def run_provenance(framework: str, dataset: DatasetDescription) -> dict[str, str]:
    """Tell what a run of a framework on a data set rests on."""
    return {
        "version": installed_version(framework) or "not installed",
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "machine": machine_type(),
        "code": training_code_fingerprint(framework),
        "data": data_fingerprint(dataset),
    }


def data_fingerprint(dataset: DatasetDescription) -> str:
    """Name the content of a prepared data set."""
    return hash_fields(dataset.sha256)


def hash_fields(values: Mapping[str, str]) -> str:
    """Hash some named texts."""
    text = "\n".join(f"{name}={values[name]}" for name in sorted(values))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def certificate_provenance(
    workload: Workload, dataset: DatasetDescription, frameworks: list[str]
) -> dict[str, str]:
    """Tell what a proof rests on: network, optimizer, each framework's version and code."""
    network = network_for(workload, dataset.shape, dataset.classes)
    ground = {
        "network": hash_fields({"network": repr(network)}),
        "optimizer": hash_fields({"optimizer": repr(workload.optimizer)}),
    }
    for framework in frameworks:
        ground |= framework_provenance(framework)
    return ground


def framework_provenance(framework: str) -> dict[str, str]:
    """Tell the part of the ground that belongs to one framework, under its name."""
    return {
        f"{framework} version": installed_version(framework) or "not installed",
        f"{framework} code": training_code_fingerprint(framework),
    }
