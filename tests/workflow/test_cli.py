"""The command line: messages, exit statuses, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import nbformat
import pytest
from tests.conftest import change_setting, horizont_processes, wait_for

from horizont.workflow.paths import Paths


def horizont(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "horizont.cli", *words],
        env={**os.environ, "HORIZONT_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refused(root: Path, *words: str) -> str:
    done = horizont(root, *words)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def test_the_version_is_printed(tmp_path: Path) -> None:
    done = horizont(tmp_path, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"horizont {version('horizont')}\n"


def test_valid_settings_are_confirmed(study_folder: Paths) -> None:
    done = horizont(study_folder.root, "config", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tiny" in done.stdout


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("seeed", 1, "seeed"),
        ("workloads.lenet5-cifar10.network", "vgg", "'vgg'"),
        ("experiments.distributed.systems", ["pytorch/sync/gossip"], "pytorch/sync/gossip"),
        ("experiments.distributed.topology.workers", 0, "workers"),
        ("experiments.distributed.global_batch", 43, "multiple of the 2 workers"),
        ("experiments.distributed.topology.addresses", ["a", "b", "c"], "addresses"),
    ],
)
def test_wrong_settings_start_nothing(
    study_folder: Paths, path: str, value: object, words: str
) -> None:
    change_setting(study_folder, path, value)
    line = refused(study_folder.root, "repro")
    assert line.startswith("error: ")
    assert words in line
    assert not (study_folder.root / "records").exists()


def test_an_unknown_data_set_is_named(study_folder: Paths) -> None:
    assert "'mnist'" in refused(study_folder.root, "prepare", "mnist")


def test_unknown_names_are_refused(study_folder: Paths) -> None:
    root = study_folder.root
    assert "'lenet9'" in refused(root, "run", "local", "lenet9")
    assert "'remote'" in refused(root, "run", "remote", "lenet5-cifar10")
    assert "'remote'" in refused(root, "experiment", "remote")
    assert "'huge'" in refused(root, "config", "use", "huge")
    assert "FRAMEWORK=MUTATION" in refused(root, "verify", "x", "--mutate", "y")
    assert "NAME=VALUE" in refused(root, "notebook", "data", "-p", "dataset")


def test_an_unknown_command_is_a_wrong_use(tmp_path: Path) -> None:
    done = horizont(tmp_path, "measure", "local")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "measure" in done.stderr


def test_a_dry_run_prints_the_plan_and_starts_nothing(study_folder: Paths) -> None:
    done = horizont(study_folder.root, "run", "distributed", "--dry-run")
    assert done.returncode == 0, done.stderr
    for word in ("worker-0", "host-1", "horizont.training", "pytorch/sync/allreduce"):
        assert word in done.stdout
    assert not (study_folder.root / "records").exists()


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"command": "env A={host}"}, 2),
        ({"command": "env A={hosts}"}, 1),
    ],
)
def test_a_dry_run_prints_how_agents_are_started(
    study_folder: Paths, options: dict[str, str], lines: int
) -> None:
    topology = "experiments.distributed.topology"
    change_setting(study_folder, f"{topology}.launcher", "command")
    change_setting(study_folder, f"{topology}.options", {**options, "hosts": ["north", "south"]})
    done = horizont(study_folder.root, "run", "distributed", "--dry-run")
    assert done.returncode == 0, done.stderr
    started = [line for line in done.stdout.splitlines() if "agent started by" in line]
    runs = done.stdout.count("launcher command")
    assert len(started) == lines * runs > 0
    assert all("env A=" in line and "horizont.launchers.agent" in line for line in started)
    assert ("host-1: agent started by env A=south" in done.stdout) == (lines == 2)


def test_runs_that_would_be_skipped_are_counted_and_measure_nothing(study_folder: Paths) -> None:
    change_setting(study_folder, "experiments.distributed.topology.launcher", "command")
    change_setting(
        study_folder, "experiments.distributed.topology.options", {"command": "env A={host}"}
    )
    reason = "topology.options.hosts: missing; 2 names are needed"
    checked = horizont(study_folder.root, "config", "check")
    assert checked.returncode == 0, checked.stderr
    assert f"would be skipped on this machine: {reason}" in checked.stdout
    planned = horizont(study_folder.root, "run", "distributed", "--dry-run")
    assert f"skipped on this machine: {reason}" in planned.stdout
    done = horizont(study_folder.root, "run", "distributed")
    assert done.returncode == 1
    assert f"skipped: {reason}" in done.stdout
    assert "next: horizont config check" in done.stdout
    assert "examples/s" not in done.stdout


def test_outside_a_project_the_folder_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horizont.cli", "config", "check"],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "HORIZONT_ROOT"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "a folder of the project" in done.stderr


@pytest.mark.framework("pytorch")
@pytest.mark.usefixtures("nothing_left")
def test_an_interrupt_preserves_finished_runs(study_folder: Paths) -> None:
    change_setting(study_folder, "experiments.local.systems", ["pytorch/local"])
    change_setting(study_folder, "experiments.local.blocks", 3)
    store = study_folder.records("local", "lenet5-cifar10")
    words = [sys.executable, "-m", "horizont.cli", "run", "local", "lenet5-cifar10"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for_records(store, 1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; finished runs are preserved, and the same command resumes" in errors
    assert "Traceback" not in errors
    assert not horizont_processes(study_folder.root)
    finished = {folder: folder.stat().st_mtime_ns for folder in store.glob("[!.]*")}
    assert finished
    assert not list(store.glob(".*"))
    resumed = horizont(study_folder.root, "run", "local", "lenet5-cifar10")
    assert resumed.returncode == 0, resumed.stderr
    assert f"{len(finished)} available before" in resumed.stderr
    assert "PyTorch, one process" in resumed.stdout
    assert resumed.stdout.splitlines()[-1].startswith("next: horizont verify lenet5-cifar10")
    assert len(resumed.stdout.splitlines()) <= 25
    assert len(list(store.iterdir())) == 3
    for folder, time_ns in finished.items():
        assert folder.stat().st_mtime_ns == time_ns, "measured twice"


CLEANUP = """
import pathlib, time
try:
    pathlib.Path("started").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(4)  # as long as a run takes to end its processes, sampler and hosts
    pathlib.Path("cleaned").touch()
    raise
"""


def test_an_interrupted_notebook_has_time_to_clean_up(study_folder: Paths) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CLEANUP)])
    nbformat.write(notebook, study_folder.notebooks / "cleanup.ipynb")
    words = [sys.executable, "-m", "horizont.cli", "notebook", "cleanup"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for((study_folder.root / "started").exists, "the notebook did not start")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert (study_folder.root / "cleaned").exists()


def wait_for_records(store: Path, count: int) -> None:
    wait_for(lambda: len(list(store.glob("[!.]*"))) >= count, "no record appeared")
