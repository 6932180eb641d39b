"""`horizont repro`: the order of the stages, and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.conftest import ROOT, cases, horizont_processes, wait_for

from horizont.cli import main
from horizont.errors import USER_ERROR
from horizont.workflow.paths import Paths
from horizont.workflow.repro import read_stage_meta, schedule_stages

NAMES = [
    "prepare@cifar10",
    "data@cifar10",
    "equivalence@lenet5-cifar10",
    "experiment@local",
    "views@local",
    "theory@theory-01-neuron",
    "theory@theory-08-staleness",
    "synthesis@decision",
    "book",
]


def test_pages_are_executed_last_and_two_at_a_time() -> None:
    measuring, pages, rest = schedule_stages(NAMES, read_stage_meta(ROOT))
    assert measuring == [
        [
            "--single-item",
            "prepare@cifar10",
            "equivalence@lenet5-cifar10",
            "experiment@local",
            "theory@theory-08-staleness",  # throttles a real worker and plots its times
        ]
    ]
    assert pages == [
        ["--single-item", "synthesis@decision", "views@local"],
        ["--single-item", "theory@theory-01-neuron", "data@cifar10"],
    ]
    assert rest == [[]]


def test_a_stage_without_meta_measures() -> None:
    assert schedule_stages(["new@a", "other"], {}) == [
        [["--single-item", "new@a", "other"]],
        [],
        [[]],
    ]


def test_a_refused_setting_removes_no_result() -> None:
    """DVC removes outputs before a command, unless they are persistent."""
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    for name in ("prepare", "equivalence", "experiment", "theory"):
        stage = pipeline["stages"][name].get("do", pipeline["stages"][name])
        outputs = [flags for out in stage["outs"] for flags in out.values()]
        outputs += [flags for out in stage.get("metrics", []) for flags in out.values()]
        assert outputs
        assert all(flags == {"cache": False, "persist": True} for flags in outputs), name


REPRO = [sys.executable, "-m", "horizont.cli", "repro"]

#: A stage that cleans up for some seconds when it is interrupted, and only once.
CLEANUP = """
import pathlib, time
try:
    pathlib.Path("started").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(2)
    pathlib.Path("cleaned").touch()
"""


@pytest.fixture
def sleeping_study(study_folder: Paths) -> Path:
    """Return the folder of a study with one stage, which sleeps until it is interrupted."""
    root = study_folder.root
    (root / "cleanup.py").write_text(CLEANUP)
    stages = {"cleanup": {"cmd": f"{sys.executable} cleanup.py", "outs": ["cleaned"]}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    dvc = [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"]
    subprocess.run(dvc, cwd=root, check=True)
    return root


@pytest.mark.parametrize(
    "number", cases([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], signal.SIGINT)
)
def test_a_signal_to_the_command_alone_reaches_the_stage(
    sleeping_study: Path, number: signal.Signals
) -> None:
    root = sleeping_study
    process = subprocess.Popen(
        REPRO,
        stderr=subprocess.PIPE,
        text=True,
        # The parent of the tests may ignore it (`nohup`, the background of a shell).
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
    )
    wait_for((root / "started").exists, "the stage did not start")
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert (root / "cleaned").exists()
    assert not horizont_processes(root)


def test_a_second_command_beside_the_first_one_says_so(sleeping_study: Path) -> None:
    first = subprocess.Popen(REPRO, stderr=subprocess.PIPE, text=True)
    try:
        wait_for((sleeping_study / "started").exists, "the stage did not start")
        second = subprocess.run(REPRO, capture_output=True, text=True, timeout=60, check=False)
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)
    assert second.returncode == 2
    assert "no other DVC command" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.fixture
def dvc_study(study_folder: Paths) -> Paths:
    """Return a study whose only stage needs nothing, in a folder that DVC may use."""
    stages = {"page": {"cmd": "touch page", "outs": ["page"]}}
    (study_folder.root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    dvc = [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"]
    subprocess.run(dvc, cwd=study_folder.root, check=True)
    return study_folder


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("dvc.yaml", "stages: [", "dvc.yaml: While parsing"),
        ("dvc.yaml", "stages: 3", "dvc.yaml: expected a dictionary, in stages"),
        ("dvc.lock", "x: [", "dvc.lock: While parsing"),
    ],
)
def test_a_damaged_file_of_dvc_is_named_with_its_reason(
    dvc_study: Paths, refused: Callable[..., str], name: str, content: str, words: str
) -> None:
    (dvc_study.root / name).write_text(content)
    line = refused("repro", "page")
    assert line.startswith(f"error: {words}"), line
    assert f"git checkout {name}" in line


def test_dvc_needs_git(dvc_study: Paths, refused: Callable[..., str]) -> None:
    (dvc_study.root / ".dvc" / "config").write_text("")  # as in a clone, without its .git
    line = refused("repro")
    assert "is not a git repository; needed: git, which DVC uses: run `git init`, or" in line


def test_a_wrong_stage_is_nothing_to_resume(dvc_study: Paths, refused: Callable[..., str]) -> None:
    assert "'pge' is not possible; allowed: an output, or a stage" in refused("repro", "pge")
    assert "did you mean 'page'" in refused("repro", "pge")


def test_a_wrong_option_is_nothing_to_resume(
    dvc_study: Paths, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["repro", "--", "--nosuchoption"]) == USER_ERROR
    shown = capfd.readouterr()
    assert "unrecognized arguments: --nosuchoption" in shown.err
    assert "incomplete" not in shown.out
