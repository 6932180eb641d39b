"""pyproject.toml, environment.yml and the lock file agree, and the lock is what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml

from horizont.config.system import FRAMEWORKS, framework_info

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = {dist for name in FRAMEWORKS for dist in framework_info(name).distributions}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: list[str]) -> dict[str, str]:
    return {normal(name): pin for name, pin in (line.split("==") for line in lines)}


DECLARED = pins(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])
LOCKED = {
    normal(name): pin
    for name, pin in re.findall(
        r"^([A-Za-z0-9._-]+)==([^\s\\]+)", (ROOT / "requirements.lock").read_text(), re.M
    )
}


def test_the_packages_of_the_project_are_declared() -> None:
    assert {"jupyterlab", "papermill", "mxnet", "torch", "seaborn", "psutil", "dvc"} <= set(
        DECLARED
    )
    assert "tensorflow-cpu" in DECLARED


def test_the_lock_has_what_is_declared() -> None:
    assert {name: LOCKED.get(name) for name in DECLARED} == DECLARED


def test_conda_installs_the_same() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (from_pip,) = [part for part in environment["dependencies"] if isinstance(part, dict)]
    lines = [line for line in from_pip["pip"] if not line.startswith("-")]
    assert pins(lines) == DECLARED
    assert "python=3.11" in environment["dependencies"]


@pytest.mark.parametrize("name", LOCKED)
def test_the_lock_is_what_is_installed(name: str) -> None:
    try:
        found = version(name)
    except PackageNotFoundError:
        if name in OPTIONAL:
            pytest.skip(f"{name} is not installed; the study skips its framework")
        raise
    assert found.split("+")[0] == LOCKED[name]


def test_every_package_of_the_lock_has_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert text.count("==") == len(re.findall(r"^[^\s#].*==.* \\\n    --hash=sha256:", text, re.M))
    assert "nvidia" not in text


def test_packages_that_share_numpy_import_together() -> None:
    code = "import numpy, pyarrow.parquet, pandas, scipy.stats, seaborn; print(numpy.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == DECLARED["numpy"]
