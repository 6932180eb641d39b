"""`horizont watch`: a real run read before, while and after it runs; truncated records; output."""

from __future__ import annotations

import io
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console
from tests.conftest import small_run

from horizont.config.system import installed_version
from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.monitoring.progress import StepCount
from horizont.records.run_folders import find_runs, locate_run
from horizont.workflow.watch import read_status, watch_study

STEPS = {"warmup": 2, "timed": 200, "instrumented": 2}


@pytest.fixture(scope="module")
def watched(tmp_path_factory, small_cifar):
    """Return the folder of records and the states read from before to after a run."""
    if installed_version("pytorch") is None:
        pytest.skip("pytorch is not installed")
    records = tmp_path_factory.mktemp("records")
    store = records / "test" / "lenet5-cifar10"
    run = small_run(steps=STEPS, sampler_hz=20, evaluation={"examples": 50})
    done = []
    run_paths = RunPaths(store, small_cifar, {})
    runner = threading.Thread(
        target=lambda: done.append(execute(run, "key", run_paths, lambda done, planned: None))
    )
    states = [read_status(store / "key")]
    runner.start()
    while runner.is_alive():
        states.append(read_status(store / "key"))
        runner.join(0.25)
    states.append(read_status(store / "key"))
    assert done[0].ok, done[0].result.reason
    return records, states


def printed(records, **options):
    """Return what is printed to an output that is not a terminal."""
    console = Console(width=120, record=True, file=io.StringIO())
    watch_study(records, console=console, **options)
    return console.export_text()


def test_a_run_is_read_before_while_and_after_it_runs(watched):
    _, states = watched
    assert states[0].state == "missing"
    running = [state for state in states if state.state == "running" and state.stages]
    steps = [state.steps["worker-0"].done for state in running if state.steps]
    assert steps == sorted(steps)
    assert any(0 < done < 204 for done in steps)
    assert {"loading the framework", "training"} <= {state.stages["worker-0"] for state in running}
    elapsed = [state.elapsed_s for state in running]
    assert elapsed == sorted(elapsed)
    last = states[-1]
    assert (last.state, last.result["status"]) == ("finished", "ok")
    assert last.steps == {"worker-0": StepCount(204, 204)}
    assert last.stages == {"worker-0": "done"}


def test_samples_of_a_running_run_are_the_latest(watched):
    sampled = [s for s in watched[1] if s.state == "running" and len(s.samples)]
    assert sampled
    assert all(state.samples["sample"].nunique() == 1 for state in sampled)


def test_the_rate_of_a_running_run_is_that_of_its_steps(watched):
    rates = [state.steps_per_s for state in watched[1] if state.steps_per_s > 0]
    result = watched[1][-1].result
    assert rates
    assert max(rates) < 20 * STEPS["timed"] / result["train_s"]


def test_watching_writes_nothing(watched):
    records, _ = watched
    before = {path: path.stat().st_mtime_ns for path in sorted(records.rglob("*"))}
    printed(records)
    assert before == {path: path.stat().st_mtime_ns for path in sorted(records.rglob("*"))}


@pytest.mark.parametrize("name", ["steps.parquet", "events.jsonl", "spec.json", "samples.parquet"])
def test_a_truncated_record_is_shown_as_far_as_it_goes(watched, tmp_path, name):
    record = watched[0] / "test" / "lenet5-cifar10" / "key"
    running = shutil.copytree(record, tmp_path / "e" / "w" / f".key.{os.getpid()}.tmp")
    (running / "result.json").unlink()
    content = (running / name).read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        (running / name).write_bytes(content[:length])
        assert read_status(tmp_path / "e" / "w" / "key").state == "running"
        assert "running" in printed(tmp_path)
    assert find_runs(tmp_path) == [tmp_path / "e" / "w" / "key"]
    running.rename(running.with_name(".key.1234567.tmp"))
    assert read_status(tmp_path / "e" / "w" / "key").state == "abandoned"
    assert locate_run(tmp_path / "e" / "w" / "key").state == "abandoned"
    shutil.rmtree(tmp_path / "e")
    assert read_status(tmp_path / "e" / "w" / "key").state == "missing"


def test_a_running_repetition_comes_before_a_failed_record(watched, tmp_path):
    record = watched[0] / "test" / "lenet5-cifar10" / "key"
    shutil.copytree(record, tmp_path / "e" / "w" / "key")
    running = shutil.copytree(record, tmp_path / "e" / "w" / f".key.{os.getpid()}.tmp")
    located = locate_run(tmp_path / "e" / "w" / "key")
    assert (located.folder, located.state) == (running, "running")


def test_steps_of_a_lost_worker_are_unknown_rather_than_none(watched, tmp_path):
    record = watched[0] / "test" / "lenet5-cifar10" / "key"
    copy = shutil.copytree(record, tmp_path / "e" / "w" / "key")
    (copy / "steps.parquet").unlink()
    assert read_status(copy).steps == {}


def test_the_output_names_stages_steps_resources_and_logs(watched, tmp_path):
    record = watched[0] / "test" / "lenet5-cifar10" / "key"
    copy = shutil.copytree(record, tmp_path / "e" / "w" / "key")
    shutil.copytree(record, tmp_path / "e" / "w" / "other")
    time.sleep(0.01)
    os.utime(copy / "spec.json")
    (copy / "logs" / "worker-0.log").write_bytes(b"line\n" * 9000 + b"[red]\xff last\n")
    text = printed(tmp_path)
    for word in ("e/w/key", "finished", "ok", "worker-0", "204 / 204", "localhost", "sampler"):
        assert word in text
    assert "[red]\ufffd last" in text  # neither markup nor broken bytes matter
    assert text.count("line") <= 10
    assert "\x1b" not in text
    assert "e/w/other" in text
    assert "e/w/other" in printed(tmp_path, pattern="other").splitlines()[0]
    with pytest.raises(UserError, match=r"run: 'no such' .*the path of a run"):
        printed(tmp_path, pattern="no such")
    assert "no runs" in printed(tmp_path / "nowhere")


def test_no_terminal_gets_the_state_once_and_no_control_sequences(watched):
    command = [sys.executable, "-m", "horizont.cli", "watch", "--records", str(watched[0])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "test/lenet5-cifar10/key" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_terminal_is_updated_until_an_interrupt(watched):
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "horizont.cli", "watch", "--records", str(watched[0])]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [*command, "--interval", "0.1"],
        stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, env=environment,
    ) as process:  # fmt: skip
        os.close(terminal)
        text = b""
        while text.count(b"lenet5-cifar10") < 3:
            text += os.read(controller, 1 << 16)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    os.close(controller)
    assert (process.returncode, errors) == (0, b"")
    assert b"\x1b[" in text
