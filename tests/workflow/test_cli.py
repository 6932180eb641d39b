"""The command line as a user meets it: messages, exit statuses, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
import yaml
from tests.conftest import horizont_processes, wait_for

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


def change(paths: Paths, path: str, value: object) -> None:
    values = yaml.safe_load(paths.params.read_text())
    *parents, last = path.split(".")
    inner = values
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    paths.params.write_text(yaml.safe_dump(values))


def test_good_settings_are_said_to_be_good(study_folder: Paths) -> None:
    done = horizont(study_folder.root, "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "tiny" in done.stdout


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("seeed", 1, "seeed"),
        ("workloads.lenet5-cifar10.network", "vgg", "'vgg'"),
        ("distributed.systems", ["pytorch/sync/gossip"], "pytorch/sync/gossip"),
        ("distributed.topology.workers", 0, "workers"),
        ("distributed.global_batch", 43, "multiple of the 2 workers"),
        ("distributed.topology.hosts", ["a", "b", "c"], "addresses"),
    ],
)
def test_wrong_settings_start_nothing(
    study_folder: Paths, path: str, value: object, words: str
) -> None:
    change(study_folder, path, value)
    line = refused(study_folder.root, "repro")
    assert line.startswith("error: ")
    assert words in line
    assert not (study_folder.root / "records").exists()


def test_an_unknown_data_set_is_named(study_folder: Paths) -> None:
    assert "'mnist'" in refused(study_folder.root, "prepare", "mnist")


def test_unknown_words_are_named(study_folder: Paths) -> None:
    assert "'lenet9'" in refused(study_folder.root, "measure", "local", "lenet9")
    assert "'remote'" in refused(study_folder.root, "measure", "remote", "lenet5-cifar10")
    assert "'huge'" in refused(study_folder.root, "profile", "huge")
    assert "FRAMEWORK=FAULT" in refused(study_folder.root, "prove", "x", "--fault", "y")


def test_outside_a_project_the_folder_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horizont.cli", "check"],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "HORIZONT_ROOT"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "a folder of the project" in done.stderr


@pytest.mark.framework
@pytest.mark.usefixtures("nothing_left")
def test_an_interrupt_keeps_what_was_finished(study_folder: Paths) -> None:
    change(study_folder, "local.systems", ["pytorch/local"])
    change(study_folder, "local.blocks", 3)
    store = study_folder.records("local", "lenet5-cifar10")
    words = [sys.executable, "-m", "horizont.cli", "measure", "local", "lenet5-cifar10"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for_records(store, 1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not horizont_processes(study_folder.root)
    finished = {folder: folder.stat().st_mtime_ns for folder in store.glob("[!.]*")}
    assert finished
    assert not list(store.glob(".*"))
    again = horizont(study_folder.root, "measure", "local", "lenet5-cifar10")
    assert again.returncode == 0, again.stderr
    assert f"{len(finished)} found finished" in again.stderr
    assert len(list(store.iterdir())) == 3
    for folder, time_ns in finished.items():
        assert folder.stat().st_mtime_ns == time_ns, "measured twice"


CLEARING = """
import pathlib, time
try:
    pathlib.Path("begun").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(4)  # as a run takes that ends its processes, its sampler and its hosts
    pathlib.Path("cleared").touch()
    raise
"""


def test_an_interrupted_notebook_has_the_time_to_clear_away(study_folder: Paths) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CLEARING)])
    nbformat.write(notebook, study_folder.notebooks / "clearing.ipynb")
    words = [sys.executable, "-m", "horizont.cli", "notebook", "clearing"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for((study_folder.root / "begun").exists, "the notebook did not begin")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert (study_folder.root / "cleared").exists()


def wait_for_records(store: Path, count: int) -> None:
    wait_for(lambda: len(list(store.glob("[!.]*"))) >= count, "no record appeared")
