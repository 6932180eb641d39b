"""Files that are damaged, and outputs that cannot be written: what to do, and no traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.analysis.record_maker import make_record
from tests.conftest import change_setting, prepare_few_images

from horizont.cli import main
from horizont.config.study import read_study
from horizont.data.prepared import read_description
from horizont.errors import FAILED, USER_ERROR
from horizont.records.provenance import run_key
from horizont.workflow.check import with_local_fallback
from horizont.workflow.paths import Paths
from horizont.workflow.provenance import run_provenance

WORKLOAD = "lenet5-cifar10"


@pytest.fixture
def measured(study_folder: Paths) -> Paths:
    """Write data and records of the experiment `local` of the tiny profile."""
    systems = ["tensorflow/local", "pytorch/local", "mxnet/local"]
    change_setting(study_folder, "experiments.local.systems", systems)
    prepare_few_images(study_folder)
    dataset = read_description(study_folder.prepared("cifar10"))
    for number, planned in enumerate(read_study(study_folder.params).runs("local", WORKLOAD)):
        run = with_local_fallback(planned)
        folder = make_record(study_folder.records("local", WORKLOAD), number, run).folder
        folder.rename(folder.with_name(run_key(run, run_provenance(run, dataset))))
    return study_folder


def record_of_pytorch(paths: Paths) -> Path:
    return next(paths.records("local", WORKLOAD).glob("pytorch-local-*"))


@pytest.mark.parametrize("command", [["summary"], ["recommend", "--network", "lenet5"]])
def test_a_closed_output_is_no_failure(measured: Paths, command: list[str]) -> None:
    del measured
    words = " ".join([sys.executable, "-m", "horizont.cli", *command])
    expected = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
    for closed in (">&-", ">&- 2>&-"):
        done = subprocess.run(
            f"{words} {closed}", shell=True, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (expected.returncode, "")


@pytest.mark.parametrize("name", ["result.json", "spec.json", "environment.json"])
@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_damaged_record_names_its_file_and_the_remedy(
    measured: Paths, capsys: pytest.CaptureFixture[str], name: str, content: str
) -> None:
    path = record_of_pytorch(measured) / name
    path.write_text(content)
    assert main(["summary"]) == USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: ")
    assert line.endswith("delete the folder of this record and run `horizont run local` again")


@pytest.mark.parametrize("name", ["steps.parquet", "samples.parquet"])
@pytest.mark.parametrize("size", [0, 300])
def test_a_damaged_table_names_its_file_and_the_remedy(
    measured: Paths, capsys: pytest.CaptureFixture[str], name: str, size: int
) -> None:
    path = record_of_pytorch(measured) / name
    path.write_bytes(path.read_bytes()[:size])
    assert main(["pack", "local"]) == USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: ")
    assert line.endswith("delete the folder of this record and run `horizont run local` again")


def test_a_certificate_that_is_no_mapping_is_none(
    measured: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = measured.certificate(WORKLOAD)
    certificate.parent.mkdir(parents=True, exist_ok=True)
    certificate.write_text("[]")
    assert main(["summary"]) == FAILED  # other experiments have no records
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        (lambda root: "/proc/x", "folder: '/proc/x' .*a writable folder .No such file"),
        (lambda root: "", "folder: '' .*a folder; the current one is"),
        (lambda root: str(root / "params.yaml"), "a folder, or the name of a new one"),
    ],
)
def test_records_are_unpacked_to_a_folder_only(
    measured: Paths,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Callable[[Path], str],
    pattern: str,
) -> None:
    assert main(["pack", "local"]) == 0
    monkeypatch.chdir(measured.root)
    capsys.readouterr()
    assert main(["unpack", "local", folder(measured.root)]) == USER_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(pattern, line), line
    assert not (measured.root / "local").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_records_are_not_unpacked_to_a_read_only_folder(
    measured: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", "local"]) == 0
    (tmp_path / "closed").mkdir(mode=0o555)
    assert main(["unpack", "local", str(tmp_path / "closed")]) == USER_ERROR
    assert "a writable folder (Permission denied)" in capsys.readouterr().err


def test_tensorboard_announces_nothing_that_it_could_not_write(
    measured: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["tensorboard", "--logdir", "/proc/x"]) == USER_ERROR
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.search("--logdir: '/proc/x' .*a folder that can be written", shown.err), shown.err
    assert main(["tensorboard", "--logdir", str(measured.root / "events")]) == 0
    assert capsys.readouterr().out.startswith("to view them: tensorboard --logdir ")
