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
from tests.cluster.chaos import until
from tests.conftest import small_run

from horizont.analysis import incidents
from horizont.cluster import Place, PlannedProcess, execute
from horizont.cluster.group import ProcessGroup, ending_all
from horizont.cluster.strike import strike
from horizont.records import Aftermath, Record, read_events
from horizont.spec import Incident, TraceJob

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]


def after(
    system: str, folder: Path, data: Path, steps: int = 60, **incident: Any
) -> tuple[Record, Aftermath]:
    run = small_run(
        system,
        steps={"warmup": 1, "bare": steps, "instrumented": 0},
        incident={"role": "worker", "rank": 1, "at_step": 5, **incident},
        patience_s=5,
    )
    record = execute(run, "key", Place(folder, data, {}), lambda done, planned: None)
    found = record.aftermath()
    assert found is not None, record.result.reason
    assert record.settled
    return record, found


def test_others_notice_a_killed_worker(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after(
        "pytorch/sync/allreduce", tmp_path, small_cifar, steps=5000, kind="killed"
    )
    assert (found.process, found.over, found.taken_in) == ("worker-1", "ended", None)
    assert found.at_step >= 5
    victim, other = sorted(found.fates, key=lambda fate: fate.process, reverse=True)
    assert (victim.end, victim.steps_before) == ("struck", found.at_step)
    assert other.end == "failed"
    assert "RuntimeError" in other.words
    assert found.noticed == other
    assert 0 <= (other.error_s or -1) <= (other.end_s or -1)
    assert record.result.status == "failed"
    expected = f"worker-1 was killed at step {found.at_step}; worker-0 failed"
    assert record.result.reason.startswith(expected)
    row = incidents([record]).iloc[0]
    assert (row["outcome"], row["weights"], row["survivors"]) == ("ends", "", "")


def test_a_nap_is_waited_for(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after(
        "pytorch/sync/parameter_server", tmp_path, small_cifar, kind="frozen", role="server",
        rank=0, for_s=0.5,
    )  # fmt: skip
    assert record.ok
    assert (found.process, found.over, found.noticed) == ("server-0", "finished", None)
    events = [line["event"] for line in read_events(record.folder / "events.jsonl")]
    assert events.index("incident") < events.index("incident_ended")
    row = incidents([record]).iloc[0]
    assert (row["steps"], row["how"], row["outcome"]) == (61, "went on", "goes on")


def test_a_hang_is_told(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after("mxnet/async/parameter_server", tmp_path, small_cifar, kind="killed")
    assert (found.over, found.noticed) == ("stalled", None)
    assert record.result.reason.endswith(
        "no progress for 5 s with scheduler-0, server-0, worker-0 still running"
    )
    row = incidents([record]).iloc[0]
    assert (row["steps"], row["how"], row["outcome"]) == (61, "no sign", "hangs")
    assert row["weights"] == "server-0, worker-0"


def test_a_worker_that_comes_back_late_is_not_taken_in(tmp_path: Path, small_cifar: Path) -> None:
    record, found = after(
        "pytorch/async/parameter_server", tmp_path, small_cifar, steps=5000, kind="restarted",
        for_s=0.1,
    )  # fmt: skip
    again = found.fates[-1]
    assert (again.process, again.role, again.rank, again.life) == ("worker-1-again", "worker", 1, 2)
    assert found.taken_in is False
    assert not record.ok
    assert (record.folder / "logs" / "worker-1-again.log").exists()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessGroup]:
    """Start a process that only waits."""
    words = (sys.executable, "-c", "import time; time.sleep(60)")
    job = TraceJob.model_construct(kind="trace")
    group = ProcessGroup(
        PlannedProcess("sleeper", "127.0.0.1", words, {}, tmp_path / "sleeper", job),
        tmp_path / "log",
    )
    with ending_all([group]):
        yield group


def stopped(group: ProcessGroup) -> bool:
    return psutil.Process(group.process.pid).status() == psutil.STATUS_STOPPED


def test_a_slowed_process_runs_in_turns(sleeper: ProcessGroup) -> None:
    incident = Incident(kind="slowed", role="worker", share=0.25)
    pieces = strike(incident, sleeper, lambda: None, None)  # type: ignore[arg-type]
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
    incident = Incident(kind="cut_off", role="worker", for_s=3)
    assert list(strike(incident, sleeper, lambda: None, link)) == [3]
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
from horizont.cluster import PlannedProcess
from horizont.cluster.group import ProcessGroup
from horizont.spec import TraceJob
folder = Path(sys.argv[1])
planned = PlannedProcess("p", "", ("sleep", "60"), {}, folder, TraceJob.model_construct())
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
