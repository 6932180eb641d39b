"""Failed runs: their records, and that no process outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.conftest import horizont_processes, small_run

from horizont.errors import UserError
from horizont.launchers.execute import RunPaths, execute
from horizont.records.files import read_events
from horizont.records.record import Record

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

LONG = {"warmup": 1, "timed": 100_000, "instrumented": 0}


def interrupted(
    change: Callable[[list[psutil.Process]], None], folder: Path, data: Path, timeout_s: float = 90
) -> tuple[Record, bool]:
    """Run two workers for long, and call `change` with them once they train.

    Returns the record, and whether `change` was called.
    """

    def once(done: int, planned: int) -> None:
        del planned
        if done > 3 and not changed.is_set():
            changed.set()
            change([process for process in horizont_processes(folder) if _is_worker(process)])

    changed = threading.Event()
    run = small_run("pytorch/sync/allreduce", steps=LONG, timeout_s=timeout_s)
    return execute(run, "key", RunPaths(folder, data, {}), once), changed.is_set()


def _is_worker(process: psutil.Process) -> bool:
    return "horizont.training" in process.cmdline()


@pytest.mark.framework("pytorch")
def test_a_killed_worker_ends_the_run(tmp_path: Path, small_cifar: Path) -> None:
    record, killed = interrupted(lambda workers: workers[1].kill(), tmp_path, small_cifar)
    assert killed
    assert record.result.status == "failed"
    assert "signal 9" in record.result.reason or "ended with status" in record.result.reason
    events = [event["event"] for event in read_events(record.folder / "events.jsonl")]
    assert "failed" in events


@pytest.mark.framework("pytorch")
def test_a_stopped_worker_ends_the_run_by_its_timeout(tmp_path: Path, small_cifar: Path) -> None:
    for timeout_s in (10, 20, 40, 80):  # a busy machine may not start training in time
        folder = tmp_path / str(timeout_s)
        folder.mkdir()
        record, stopped = interrupted(
            lambda workers: workers[1].suspend(), folder, small_cifar, timeout_s
        )
        if stopped:
            break
    assert stopped
    assert record.result.status == "failed"
    assert "timeout" in record.result.reason


@pytest.mark.framework("pytorch")
def test_an_error_in_a_worker_is_the_reason(tmp_path: Path, small_cifar: Path) -> None:
    (tmp_path / "empty").mkdir()
    record = execute(
        small_run(), "key", RunPaths(tmp_path, tmp_path / "empty", {}), lambda done, planned: None
    )
    assert record.result.status == "failed"
    assert "description.json" in record.result.reason


def test_a_port_in_use_starts_nothing(tmp_path: Path, small_cifar: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        topology = {"workers": 2, "base_port": listener.getsockname()[1]}
        run = small_run("pytorch/sync/allreduce", topology=topology)
        with pytest.raises(UserError, match="base_port"):
            execute(run, "key", RunPaths(tmp_path, small_cifar, {}), lambda done, planned: None)
    assert list(tmp_path.iterdir()) == []


LAUNCHER = """
import sys
from pathlib import Path
from tests.conftest import small_run
from horizont.launchers.execute import RunPaths, execute
run = small_run("pytorch/sync/allreduce", steps={steps}, sampler_hz=5, timeout_s=240)
try:
    execute(run, "key", RunPaths(Path(sys.argv[1]), Path(sys.argv[2]), {{}}), lambda d, p: None)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_launcher(number: int, tmp_path: Path, small_cifar: Path) -> None:
    command = [sys.executable, "-c", LAUNCHER.format(steps=LONG), str(tmp_path), str(small_cifar)]
    launcher = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    wait_until(lambda: len(workers_of(launcher.pid)) == 2)
    time.sleep(2)
    workers = workers_of(launcher.pid)
    os.kill(launcher.pid, number)
    launcher.wait(20)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    if number == signal.SIGINT:
        assert launcher.returncode == 130
        assert list(tmp_path.iterdir()) == []


def workers_of(launcher: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(launcher).children() if _is_worker(child)]


def wait_until(condition: Callable[[], bool], timeout_s: float = 120) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.1)
