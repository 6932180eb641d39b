"""Incidents that really happen, and what the record tells of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import small_run
from tests.launchers.chaos import until

from horizont.analysis.faults import fault_outcomes
from horizont.config.faults import FaultSpec
from horizont.config.jobs import TraceJob
from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.fault_injection import inject
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup, terminating
from horizont.records.files import read_events
from horizont.records.record import Record
from horizont.records.results import FaultReport

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]


def after(
    system: str, folder: Path, data: Path, steps: int = 60, **incident: Any
) -> tuple[Record, FaultReport]:
    run = small_run(
        system,
        steps={"warmup": 1, "timed": steps, "instrumented": 0},
        fault={"target": "worker", "rank": 1, "at_step": 5, **incident},
        stall_timeout_s=5,
    )
    record = execute(run, "key", RunPaths(folder, data, {}), lambda done, planned: None)
    found = record.fault_report()
    assert found is not None, record.result.reason
    assert record.is_final
    return record, found


def test_others_notice_a_killed_worker(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after("pytorch/sync/allreduce", tmp_path, small_cifar, steps=5000, kind="kill")
    assert (found.target, found.end_reason, found.rejoined) == ("worker-1", "all_exited", None)
    assert found.at_step >= 5
    victim, other = sorted(found.processes, key=lambda fate: fate.process, reverse=True)
    assert (victim.outcome, victim.steps_before) == ("injected", found.at_step)
    assert other.outcome == "failed"
    assert "RuntimeError" in other.error
    assert found.first_failure == other
    assert 0 <= (other.error_after_s or -1) <= (other.ended_after_s or -1)
    assert record.result.status == "failed"
    expected = f"worker-1 was killed at step {found.at_step}; worker-0 failed"
    assert record.result.reason.startswith(expected)
    row = fault_outcomes([record]).iloc[0]
    assert (row["outcome"], row["weight_holders"], row["survivors"]) == ("aborts", "", "")


def test_a_nap_is_waited_for(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after(
        "pytorch/sync/parameter_server", tmp_path, small_cifar, kind="pause", target="server",
        rank=0, duration_s=0.5,
    )  # fmt: skip
    assert record.ok
    assert (found.target, found.end_reason, found.first_failure) == ("server-0", "completed", None)
    events = [line["event"] for line in read_events(record.folder / "events.jsonl")]
    assert events.index("fault") < events.index("fault_ended")
    row = fault_outcomes([record]).iloc[0]
    assert (row["steps"], row["first_error"], row["outcome"]) == (61, "completed", "completes")


def test_a_hang_is_told(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after("mxnet/async/parameter_server", tmp_path, small_cifar, kind="kill")
    assert (found.end_reason, found.first_failure) == ("stalled", None)
    assert record.result.reason.endswith(
        "no progress for 5 s with scheduler-0, server-0, worker-0 still running"
    )
    row = fault_outcomes([record]).iloc[0]
    assert (row["steps"], row["first_error"], row["outcome"]) == (61, "no error", "hangs")
    assert row["weight_holders"] == "server-0, worker-0"


def test_a_worker_that_comes_back_late_is_not_taken_in(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after(
        "pytorch/async/parameter_server", tmp_path, small_cifar, steps=5000, kind="restart",
        duration_s=0.1,
    )  # fmt: skip
    again = found.processes[-1]
    assert (again.process, again.role, again.rank, again.incarnation) == (
        "worker-1-again",
        "worker",
        1,
        2,
    )
    assert found.rejoined is False
    assert not record.ok
    assert (record.folder / "logs" / "worker-1-again.log").exists()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessGroup]:
    """Start a process that only waits."""
    words = (sys.executable, "-c", "import time; time.sleep(60)")
    job = TraceJob.model_construct(kind="trace")
    group = ProcessGroup(
        ProcessPlan("sleeper", "127.0.0.1", words, {}, tmp_path / "sleeper", job),
        tmp_path / "log",
    )
    with terminating([group]):
        yield group


def stopped(group: ProcessGroup) -> bool:
    return psutil.Process(group.process.pid).status() == psutil.STATUS_STOPPED


def test_a_slowed_process_runs_in_turns(sleeper: ProcessGroup) -> None:
    incident = FaultSpec(kind="throttle", target="worker", cpu_fraction=0.25)
    pieces = inject(incident, sleeper, lambda: None, None)  # type: ignore[arg-type]
    for pause_s, is_stopped in [(0.075, True), (0.025, False)] * 2:
        assert next(pieces) == pytest.approx(pause_s)
        until(lambda wanted=is_stopped: stopped(sleeper) is wanted, 5)


def test_hosts_are_cut_off_by_their_engine(sleeper: ProcessGroup) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.told: list[tuple[str, str]] = []

        def cut_off(self, host: str) -> None:
            self.told.append(("cut off", host))

        def join(self, host: str) -> None:
            self.told.append(("join", host))

    link = Recorder()
    incident = FaultSpec(kind="disconnect", target="worker", duration_s=3)
    assert list(inject(incident, sleeper, lambda: None, link)) == [3]
    assert link.told == [("cut off", "127.0.0.1"), ("join", "127.0.0.1")]


def test_what_was_collected_is_not_signalled_again(sleeper: ProcessGroup) -> None:
    """Its number may belong to somebody else by then."""
    sleeper.signal(signal.SIGKILL)
    sleeper.reap()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        sleeper.process.pid = stranger.pid
        sleeper.signal(signal.SIGKILL)
        time.sleep(0.1)
        assert stranger.poll() is None
        stranger.kill()


ABANDONED = """
import os, signal, sys
from pathlib import Path
from horizont.config.jobs import TraceJob
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup
folder = Path(sys.argv[1])
planned = ProcessPlan("p", "", ("sleep", "60"), {}, folder, TraceJob.model_construct())
group = ProcessGroup(planned, folder.with_suffix(".log"))
group.signal(signal.SIGSTOP)  # before it could ask for anything by itself
print(group.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_stopped_process_dies_with_its_launcher(tmp_path: Path) -> None:
    launcher = subprocess.run(
        [sys.executable, "-c", ABANDONED, str(tmp_path / "p")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert launcher.returncode == -signal.SIGKILL, launcher.stderr
    until(lambda: not psutil.pid_exists(int(launcher.stdout)), 5)
