"""What a result rests on besides its settings: versions, machine, code and data."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import horizont
from horizont.data import About
from horizont.measure import describe_environment
from horizont.networks import network_for
from horizont.records import fingerprint
from horizont.spec import FRAMEWORKS, Workload, installed_version

SOURCE = Path(horizont.__file__).parent

#: The floors that decide what a training process does.
TRAINING_FLOORS = ("spec", "data", "networks", "worker", "measure", "cluster")


def training_code(framework: str) -> str:
    """Fingerprint the code that decides how a framework trains here."""
    frameworks = SOURCE / "frameworks"
    folders = [SOURCE / floor for floor in TRAINING_FLOORS]
    return fingerprint(
        [*folders, frameworks / "base.py", frameworks / FRAMEWORKS[framework].adapter]
    )


def machine() -> str:
    """Name the kind of machine: processor and cores. No host name."""
    cpu = describe_environment(packages=())["cpu"]
    return f"{cpu['model']} x{len(cpu['affinity'])}"


def run_ground(framework: str, about: About) -> dict[str, str]:
    """Tell what a run of a framework on a data set rests on."""
    return {
        "version": installed_version(framework) or "not installed",
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "machine": machine(),
        "code": training_code(framework),
        "data": data_identity(about),
    }


def data_identity(about: About) -> str:
    """Name the content of a prepared data set."""
    return fingerprint_of(about.sha256)


def fingerprint_of(values: Mapping[str, str]) -> str:
    """Hash some named texts."""
    text = "\n".join(f"{name}={values[name]}" for name in sorted(values))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def proof_ground(workload: Workload, about: About, frameworks: list[str]) -> dict[str, str]:
    """Tell what a proof rests on: network, optimizer, each framework's version and code."""
    network = network_for(workload, about.shape, about.classes)
    ground = {
        "network": fingerprint_of({"network": repr(network)}),
        "optimizer": fingerprint_of({"optimizer": repr(workload.optimizer)}),
    }
    for framework in frameworks:
        ground |= framework_ground(framework)
    return ground


def framework_ground(framework: str) -> dict[str, str]:
    """Tell the part of the ground that belongs to one framework, under its name."""
    return {
        f"{framework} version": installed_version(framework) or "not installed",
        f"{framework} code": training_code(framework),
    }
