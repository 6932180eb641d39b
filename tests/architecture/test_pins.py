"""pyproject.toml, environment.yml and the lock files agree, and the locks are what is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from horizont.config.system import FRAMEWORKS, framework_info, framework_python, installed_version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]

#: Prints the versions of all installed packages.
LIST = """
import json
from importlib.metadata import distributions
print(json.dumps({each.metadata["Name"]: each.version for each in distributions()}))
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: list[str]) -> dict[str, str]:
    exact = [line for line in lines if "==" in line]
    return {normal(name): pin for name, pin in (line.split("==") for line in exact)}


def locked(environment: str) -> dict[str, str]:
    text = (ROOT / "locks" / f"{environment}.txt").read_text()
    return pins([line.split()[0] for line in text.splitlines() if re.match(r"\S+==", line)])


LABORATORY = pins(PROJECT["dependencies"] + OPTIONAL["laboratory"] + OPTIONAL["dev"])
ENVIRONMENTS = {
    "laboratory": LABORATORY,
    **{name: pins(PROJECT["dependencies"] + OPTIONAL[name]) for name in FRAMEWORKS},
}


def test_the_packages_of_the_project_are_declared() -> None:
    assert {"jupyterlab", "papermill", "seaborn", "psutil", "dvc"} <= {*LABORATORY}
    for framework in FRAMEWORKS:
        assert framework_info(framework).distributions[0] in ENVIRONMENTS[framework]
        assert "ipykernel" in locked(framework)


def test_the_laboratory_needs_no_framework() -> None:
    distributions = {dist for name in FRAMEWORKS for dist in framework_info(name).distributions}
    assert not distributions & {*locked("laboratory")}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_lock_has_what_is_declared(name: str) -> None:
    declared = ENVIRONMENTS[name]
    assert {package: locked(name).get(package) for package in declared} == declared


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_lock_is_what_is_installed(name: str) -> None:
    if name in FRAMEWORKS and installed_version(name) is None:
        pytest.skip(f"{name} is not installed; the study skips its framework")
    python = sys.executable if name == "laboratory" else framework_python(name)
    done = subprocess.run([python, "-c", LIST], capture_output=True, text=True, check=True)
    installed = {normal(each): version for each, version in json.loads(done.stdout).items()}
    found = {package: installed.get(package, "").split("+")[0] for package in locked(name)}
    assert found == locked(name)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_package_of_a_lock_has_hashes(name: str) -> None:
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    assert text.count("==") == len(re.findall(r"^[^\s#].*==.* \\\n    --hash=sha256:", text, re.M))
    assert "nvidia" not in text


def test_conda_installs_the_same_laboratory() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (from_pip,) = [part for part in environment["dependencies"] if isinstance(part, dict)]
    assert pins([line for line in from_pip["pip"] if not line.startswith("-")]) == LABORATORY
    assert "python=3.11" in environment["dependencies"]


def test_packages_that_share_numpy_import_together() -> None:
    code = "import numpy, pyarrow.parquet, pandas, scipy.stats, seaborn; print(numpy.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == LABORATORY["numpy"]
