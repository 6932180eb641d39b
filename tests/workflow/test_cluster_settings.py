"""A study on a cluster: the settings of a profile for a launcher, and the batch script."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT

from horizont.cli import USER_ERROR, main
from horizont.config.study import read_study
from horizont.errors import UserError
from horizont.workflow.batch_script import write_batch_script
from horizont.workflow.check import load_study, skip_reason, with_local_fallback
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile

#: Stands for `horizont` in a batch script: takes a second, or ends when it is interrupted.
STUDY = f"""#!{sys.executable}
import pathlib, signal, sys, time
log = pathlib.Path(sys.argv[0] + ".log")
if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
    log.write_text("its children would ignore SIGINT")
    sys.exit(1)
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    log.write_text(sys.argv[1] + " started")
    while not pathlib.Path(sys.argv[0] + ".done").exists():
        time.sleep(0.1)
except KeyboardInterrupt:
    log.write_text("repro started, interrupted")
    sys.exit(0 if pathlib.Path(sys.argv[0] + ".finishing").exists() else 130)
"""


def test_distributed_experiments_use_the_launcher(study_folder: Paths) -> None:
    apply_profile(study_folder, "quick", "slurm")
    study = load_study(study_folder)
    launchers = {name: each.topology.launcher for name, each in study.experiments.items()}
    assert launchers["distributed"] == launchers["scaling"] == "slurm"
    assert launchers["local"] == "local"
    assert launchers["links"] == "emulated"  # it sweeps the rate of a link
    assert study.experiments["scaling"].topology.cpus_per_host is None
    apply_profile(study_folder, "quick")
    assert read_study(study_folder.params).experiments["distributed"].topology.launcher == "local"


def test_an_unknown_launcher_changes_nothing(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    before = study_folder.params.read_bytes()
    assert main(["config", "use", "quick", "--launcher", "kubernetes"]) == USER_ERROR
    assert "slurm" in capsys.readouterr().err
    assert study_folder.params.read_bytes() == before


def test_a_run_on_other_machines_does_not_fall_back_to_this_one(
    study_folder: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    apply_profile(study_folder, "quick", "slurm")
    run = next(iter(load_study(study_folder).runs("distributed", "lenet5-cifar10")))
    assert with_local_fallback(run).topology.launcher == "slurm"
    assert "Slurm" in skip_reason(run) or "srun" in skip_reason(run)


def test_the_batch_script_asks_for_the_nodes_that_are_needed(study_folder: Paths) -> None:
    apply_profile(study_folder, "quick", "slurm")
    path = write_batch_script(study_folder, 60, "short")
    text = path.read_text(encoding="utf-8")
    assert "#SBATCH --nodes=3\n" in text  # two workers and a dedicated server
    assert "#SBATCH --time=60\n" in text
    assert "#SBATCH --partition=short\n" in text
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("minutes", [0, 4, 10**9])
def test_an_impossible_time_limit_is_refused(study_folder: Paths, minutes: int) -> None:
    apply_profile(study_folder, "quick", "slurm")
    with pytest.raises(UserError, match="--minutes"):
        write_batch_script(study_folder, minutes, "")


def test_a_study_without_slurm_has_no_batch_script(study_folder: Paths) -> None:
    with pytest.raises(UserError, match="--launcher slurm"):
        write_batch_script(study_folder, 60, "")
    assert not (study_folder.root / "horizont.sbatch").exists()


@pytest.mark.parametrize("event", ["time limit", "time limit while it finishes", "end"])
def test_the_batch_script_interrupts_the_study_and_is_queued_again(
    study_folder: Paths, tmp_path: Path, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"horizont": STUDY, "scontrol": '#!/bin/sh\necho "$@" >> "$0.log"'}.items():
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setattr("sys.executable", str(programs / "python"))
    apply_profile(study_folder, "quick", "slurm")
    script = write_batch_script(study_folder, 60, "")
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    log = programs / "horizont.log"
    if event == "time limit while it finishes":
        (programs / "horizont.finishing").touch()
    with subprocess.Popen(["bash", str(script)], env=environment) as job:
        while not log.exists():
            assert job.poll() is None
        if event == "end":
            (programs / "horizont.done").touch()
        else:
            job.send_signal(signal.SIGUSR1)
        status = job.wait(30)
    assert log.read_text().startswith("repro started")
    assert ("interrupted" in log.read_text()) == (event != "end")
    assert status == (130 if event == "time limit" else 0)
    queued = programs / "scontrol.log"
    assert queued.exists() == (event == "time limit")
    if queued.exists():
        assert queued.read_text() == "requeue 7\n"


def test_the_profile_of_the_page_names_the_hosts(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "howto" / "cluster.md").read_text(encoding="utf-8")
    section = page.partition("\n## Machines that you reach by ssh\n")[2].partition("\n## ")[0]
    settings, commands = re.findall(r"^```\w+\n(.*?)^```", section, re.M | re.S)
    (study_folder.root / "profiles" / "ssh.yaml").write_text(settings)
    for command in commands.splitlines():
        capsys.readouterr()
        assert main(command.split()[1:]) == 0
    plans = [line for line in capsys.readouterr().out.splitlines() if "launcher command" in line]
    assert len(plans) == 18
    hosts = "{'command': 'ssh', 'hosts': ['node1', 'node2', 'node3']}"
    assert all(line.endswith(f", options {hosts}") for line in plans)
    assert all(", workers 3, " in line for line in plans)
