"""Provenance: everything that a run executes counts, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.conftest import ROOT, small_run

from horizont.config.run import Run
from horizont.config.system import (
    FRAMEWORKS,
    framework_info,
    framework_interpreter,
    framework_python,
)
from horizont.data.prepared import load
from horizont.launchers import LAUNCHERS
from horizont.launchers.execute import RunPaths, execute
from horizont.workflow import provenance

#: Executed by every process of a run: writes the files whose functions were called. The code of
#: modules and classes, which importing executes, is not optimised.
RECORD_CALLS = """
import atexit, os, sys, threading
called = set()
def record(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & {function}:
        called.add(frame.f_code.co_filename)
def write():
    sys.setprofile(None)
    with open(os.path.join({folder!r}, str(os.getpid())), "w") as file:
        file.write("\\n".join(called))
atexit.register(write)
threading.setprofile(record)
sys.setprofile(record)
"""


def executed_files(run: Run, data: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Run, and return the files of Horizont of which any process called a function."""
    calls = folder / "calls"
    calls.mkdir()
    (folder / "sitecustomize.py").write_text(
        RECORD_CALLS.format(folder=str(calls), function=CO_OPTIMIZED)
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    called: set[str] = set()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED:
            called.add(frame.f_code.co_filename)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        finished = execute(run, "key", RunPaths(folder / "records", data, {}), lambda *_: None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert finished.ok, finished.result.reason
    processes = [path.read_text().splitlines() for path in calls.iterdir()]
    assert len(processes) >= run.topology.workers
    package = str(provenance.PACKAGE_FOLDER)
    every = called.union(*processes)
    return {path.removeprefix(package + "/") for path in every if path.startswith(package + "/")}


#: Executed, but without influence on the training: see `provenance`. The layers and the weights
#: of the network count, its description has a fingerprint of its own.
WITHOUT_INFLUENCE = {"__init__.py", "networks/catalogue.py", "networks/lenet.py"}


@pytest.mark.framework("pytorch")
def test_every_executed_file_counts(
    tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run(sampler_hz=5, evaluation={"examples": 16})
    counted = {
        str(path.relative_to(provenance.PACKAGE_FOLDER)) for path in provenance.run_files(run)
    }
    executed = executed_files(run, small_cifar, tmp_path, monkeypatch)
    assert "training/loop.py" in executed
    assert executed - counted <= WITHOUT_INFLUENCE


def test_modules_that_are_named_in_strings_count() -> None:
    topology = {"launcher": "emulated", "workers": 2, "link": {"latency_ms": 5}}
    run = small_run("pytorch/sync/allreduce", topology=topology, sampler_hz=5)
    files = provenance.run_files(run)
    folder = provenance.PACKAGE_FOLDER
    names = {
        constant
        for path in files
        for constant in re.findall(r'"(horizont(?:\.\w+)+)"', path.read_text())
        if folder.joinpath(*constant.split(".")[1:]).with_suffix(".py").is_file()
    }
    counted = {
        ".".join(["horizont", *path.relative_to(folder).with_suffix("").parts]) for path in files
    }
    assert names - counted == set(LAUNCHERS.values()) - {"horizont.launchers.emulated"}


@pytest.fixture
def package_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the package and take provenance from the copy."""
    copy = tmp_path / "horizont"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(provenance.PACKAGE_FOLDER, copy, ignore=ignored)
    monkeypatch.setattr(provenance, "PACKAGE_FOLDER", copy)
    return copy


def clear_caches() -> None:
    provenance._imported_files.cache_clear()
    provenance._fingerprint.cache_clear()


def run_code(data: Path) -> str:
    """Return the fingerprint of the code of a PyTorch run in one process."""
    clear_caches()
    return provenance.run_provenance(small_run(), load(data).description)["code"]


def test_files_that_a_run_does_not_execute_do_not_count(
    package_copy: Path, small_cifar: Path
) -> None:
    before = run_code(small_cifar)
    for file in (
        "frameworks/tensorflow/model.py",
        "frameworks/mxnet/train.py",
        "launchers/emulated.py",
        "networks/resnet.py",
        "data/synthetic.py",
        "data/preparation.py",
        "training/mutations.py",
        "records/format1.py",
        "config/study.py",
        "equivalence/compare.py",
        "analysis/steps.py",
        "workflow/measure.py",
    ):
        path = package_copy / file
        path.write_text(path.read_text() + "\nADDED = 1\n")
    assert run_code(small_cifar) == before


def test_docstrings_and_comments_do_not_count(package_copy: Path, small_cifar: Path) -> None:
    before = run_code(small_cifar)
    for path in package_copy.rglob("*.py"):
        code = path.read_text().replace("\n\n", "\n# A comment.\n", 1)
        path.write_text(code.replace('"""', '"""Reworded. ', 1))
    assert run_code(small_cifar) == before


@pytest.mark.parametrize(
    "file",
    [
        "frameworks/torch/model.py",
        "frameworks/torch/info.py",
        "launchers/execute.py",
        "launchers/local.py",
        "training/loop.py",
        "networks/layers.py",
        "data/sharding.py",
        "config/run.py",
        "records/record.py",
    ],
)
def test_files_that_a_run_executes_count(file: str, package_copy: Path, small_cifar: Path) -> None:
    before = run_code(small_cifar)
    path = package_copy / file
    path.write_text(path.read_text() + "\nADDED = 1\n")
    assert run_code(small_cifar) != before


def test_versions_are_those_of_the_framework_interpreter(
    small_cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = load(small_cifar).description
    own = provenance.run_provenance(small_run(), description)
    here = framework_interpreter("pytorch")
    assert here is not None
    assert (own["python"], own["numpy"]) == (here.python, here.packages["numpy"])
    other = {"python": "3.99.1", "packages": {"numpy": "1.26.4"}}
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(other)}'\n")
    python.chmod(0o755)
    for interpreter, versions in (
        (framework_python("pytorch"), (own["python"], own["numpy"])),
        (str(python), ("3.99.1", "1.26.4")),
        ("/no/such/python", ("not installed", "not installed")),
    ):
        info = framework_info("pytorch").model_copy(update={"python": interpreter})
        monkeypatch.setattr("horizont.frameworks.torch.info.INFO", info)
        found = provenance.run_provenance(small_run(), description)
        assert (found["python"], found["numpy"]) == versions


def test_a_framework_and_a_launcher_from_outside_count(
    small_cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = ROOT / "tests" / "extension" / "outside"
    for name in ("toy", "low_priority.py"):
        copy = shutil.copytree if (outside / name).is_dir() else shutil.copy
        copy(outside / name, tmp_path / name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(FRAMEWORKS, "toy", "toy")
    monkeypatch.setitem(LAUNCHERS, "low_priority", "low_priority")
    run = small_run("toy/local", topology={"launcher": "low_priority"})
    description = load(small_cifar).description
    fingerprints = []
    for changed in (None, "toy/adapter.py", "toy/info.py", "low_priority.py"):
        if changed:
            path = tmp_path / changed
            path.write_text(path.read_text() + "\nADDED = 1\n")
        clear_caches()
        fingerprints.append(provenance.run_provenance(run, description)["code"])
    assert len(set(fingerprints)) == len(fingerprints)
    own = run_code(small_cifar)
    (tmp_path / "toy" / "adapter.py").write_text("")
    assert run_code(small_cifar) == own
