"""Runs that end badly: what the record says, and that nothing outlives them."""

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
    change: Callable[[list[psutil.Process]], None], folder: Path, data: Path, deadline_s: float = 90
) -> tuple[Record, bool]:
    """Run two workers for long, and let `change` do something to them once they train.

    Tell whether it came to that, too.
    """

    def once(done: int, planned: int) -> None:
        del planned
        if done > 3 and not acted.is_set():
            acted.set()
            change([process for process in horizont_processes(folder) if _works(process)])

    acted = threading.Event()
    run = small_run("pytorch/sync/allreduce", steps=LONG, timeout_s=deadline_s)
    return execute(run, "key", RunPaths(folder, data, {}), once), acted.is_set()


def _works(process: psutil.Process) -> bool:
    return "horizont.training" in process.cmdline()


def test_a_killed_worker_ends_the_run(tmp_path: Path, small_cifar: Path) -> None:
    record, killed = interrupted(lambda workers: workers[1].kill(), tmp_path, small_cifar)
    assert killed
    assert record.result.status == "failed"
    assert "signal 9" in record.result.reason or "ended with status" in record.result.reason
    events = [event["event"] for event in read_events(record.folder / "events.jsonl")]
    assert "failed" in events


def test_a_frozen_worker_meets_the_deadline(tmp_path: Path, small_cifar: Path) -> None:
    for deadline_s in (20, 40, 80):  # a busy machine may not come to training in time
        folder = tmp_path / str(deadline_s)
        folder.mkdir()
        record, frozen = interrupted(
            lambda workers: workers[1].suspend(), folder, small_cifar, deadline_s
        )
        if frozen:
            break
    assert frozen
    assert record.result.status == "failed"
    assert "deadline" in record.result.reason


def test_a_mistake_inside_a_worker_is_the_reason(tmp_path: Path, small_cifar: Path) -> None:
    (tmp_path / "empty").mkdir()
    record = execute(
        small_run(), "key", RunPaths(tmp_path, tmp_path / "empty", {}), lambda done, planned: None
    )
    assert record.result.status == "failed"
    assert "about.json" in record.result.reason


def test_a_taken_port_starts_nothing(tmp_path: Path, small_cifar: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        topology = {"workers": 2, "base_port": taken.getsockname()[1]}
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
    words = [sys.executable, "-c", LAUNCHER.format(steps=LONG), str(tmp_path), str(small_cifar)]
    launcher = subprocess.Popen(words, cwd=Path(__file__).parents[2])
    wait_until(lambda: len(own_workers(launcher.pid)) == 2)
    time.sleep(2)
    workers = own_workers(launcher.pid)
    os.kill(launcher.pid, number)
    launcher.wait(20)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    if number == signal.SIGINT:
        assert launcher.returncode == 130
        assert list(tmp_path.iterdir()) == []


def own_workers(launcher: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(launcher).children() if _works(child)]


def wait_until(condition: Callable[[], bool], timeout_s: float = 120) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.1)
