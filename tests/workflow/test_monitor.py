"""`horizont monitor`: any command's process tree, and its own exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.conftest import horizont_processes

from horizont.errors import UserError
from horizont.monitoring.samples import SampleFiles, read_samples, read_stream
from horizont.workflow.monitor import monitor_command, run_foreground


def end_children_once_sampled(record: Path, processes: int) -> None:
    """Stop the children of the command as soon as so many processes of its tree are sampled."""
    end_s = time.monotonic() + 60
    while len(sampled_pids(record)) < processes:
        if time.monotonic() > end_s:
            return
        time.sleep(0.05)
    for pid in sampled_pids(record):
        if psutil.Process(pid).ppid() != os.getpid():
            os.kill(pid, signal.SIGTERM)


def sampled_pids(record: Path) -> set[int]:
    """Return the processes in the samples that are being written."""
    stream = SampleFiles(record).stream
    samples = read_stream(stream).to_pylist() if stream.exists() else []
    return {sample["pid"] for sample in samples if sample["scope"] == "process"}


def test_a_process_tree_is_sampled_and_its_status_returned(tmp_path, capfd):
    ending = threading.Thread(target=end_children_once_sampled, args=(tmp_path / "record", 3))
    ending.start()
    script = "sleep 60 & sleep 60 & echo output; wait; exit 7"
    assert monitor_command(["sh", "-c", script], tmp_path / "record", 50.0) == 7
    ending.join()
    captured = capfd.readouterr()
    assert captured.out == "output\n"
    assert "chart.svg" in captured.err
    samples = read_samples(tmp_path / "record").to_pandas()
    tree = samples[samples["scope"] == "process"]
    assert set(tree["name"]) == {"sh"}
    assert tree["pid"].nunique() == 3
    chart = (tmp_path / "record" / "chart.svg").read_text()
    assert "process-2" in chart
    assert json.loads((tmp_path / "record" / "command.json").read_text())["status"] == 7
    with pytest.raises(UserError, match="without samples"):
        monitor_command(["true"], tmp_path / "record")


def test_an_interrupt_goes_to_the_command_and_the_samples_are_written(tmp_path):
    script = "trap 'echo interrupted; exit 5' INT; echo up; while true; do sleep 0.05; done"
    command = [sys.executable, "-m", "horizont.cli", "monitor", "--hz", "50"]
    command += ["--out", str(tmp_path / "record")]
    with subprocess.Popen(
        [*command, "--", "sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "up\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, output) == (5, "interrupted\n"), errors
    assert "Traceback" not in errors
    assert (read_samples(tmp_path / "record").to_pandas()["name"] == "sh").any()
    assert (tmp_path / "record" / "chart.svg").exists()
    assert horizont_processes(tmp_path) == []


def test_a_command_ended_by_a_signal_has_the_status_of_a_shell():
    assert run_foreground(["sh", "-c", "kill -TERM $$"], lambda pid: None) == 143


def test_a_folder_that_the_command_removes_does_not_hide_its_status(tmp_path, capfd):
    record = tmp_path / "record"
    assert monitor_command(["sh", "-c", f"rm -r {record}; exit 3"], record, 50.0) == 3
    assert "removed" in capfd.readouterr().err


def test_a_file_that_is_not_executable_is_refused(tmp_path):
    script = tmp_path / "script"
    script.write_text("echo no line that names its interpreter\n")
    script.chmod(0o755)
    with pytest.raises(UserError, match="script"):
        monitor_command([str(script)], tmp_path / "new", 5.0)


@pytest.mark.parametrize(
    ("command", "out", "hz", "words"),
    [
        ([], "new", 5.0, "after --"),
        (["no-such-program"], "new", 5.0, "no-such-program"),
        (["true"], "new", 0.0, "--hz"),
        (["true"], "new", float("nan"), "--hz"),
        (["true"], "file/below", 5.0, "--out"),
    ],
)
def test_wrong_input_is_refused_before_anything_starts(tmp_path, command, out, hz, words):
    Path(tmp_path, "file").touch()
    with pytest.raises(UserError, match=words):
        monitor_command(command, tmp_path / out, hz)
    assert not (tmp_path / "new").exists()
