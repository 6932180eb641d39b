"""What `horizont repro` runs after what, and what beside what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import yaml
from tests.conftest import ROOT, horizont_processes, wait_for

from horizont.workflow.paths import Paths
from horizont.workflow.repro import read_stage_meta, schedule_stages

NAMES = [
    "prepare@cifar10",
    "data@cifar10",
    "equivalence@lenet5-cifar10",
    "local@lenet5-cifar10",
    "operators@lenet5-cifar10",
    "theory@theory-01-neuron",
    "theory@theory-08-staleness",
    "decision",
    "book",
]


def test_pages_come_after_what_measures_and_two_at_a_time() -> None:
    measuring, pages, rest = schedule_stages(NAMES, read_stage_meta(ROOT))
    assert measuring == [
        [
            "--single-item",
            "prepare@cifar10",
            "equivalence@lenet5-cifar10",
            "local@lenet5-cifar10",
            "theory@theory-08-staleness",  # has a real worker slowed, and shows its times
        ]
    ]
    assert pages == [
        ["--single-item", "decision", "operators@lenet5-cifar10"],
        ["--single-item", "theory@theory-01-neuron", "data@cifar10"],
    ]
    assert rest == [[]]


def test_a_stage_that_says_nothing_measures() -> None:
    assert schedule_stages(["new@a", "other"], {}) == [
        [["--single-item", "new@a", "other"]],
        [],
        [[]],
    ]


#: A stage that clears away for some seconds when it is interrupted, and once only.
CLEARING = """
import pathlib, time
try:
    pathlib.Path("begun").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(2)
    pathlib.Path("cleared").touch()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_us_alone_reaches_the_stage(
    study_folder: Paths, number: signal.Signals
) -> None:
    root = study_folder.root
    (root / "clearing.py").write_text(CLEARING)
    stages = {"clearing": {"cmd": f"{sys.executable} clearing.py"}}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    dvc = [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"]
    subprocess.run(dvc, cwd=root, check=True)
    words = [sys.executable, "-m", "horizont.cli", "repro"]
    process = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests may ignore it (`nohup`, a shell's background).
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
    )
    wait_for((root / "begun").exists, "the stage did not begin")
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert (root / "cleared").exists()
    assert not horizont_processes(root)
