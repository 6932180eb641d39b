"""Faults injected into real processes, and what the record says."""

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
from tests.conftest import small_run, wait_for

from horizont.analysis.faults import fault_outcomes
from horizont.config.faults import FaultSpec
from horizont.config.jobs import TraceJob
from horizont.config.system import SYSTEMS
from horizont.errors import UserError
from horizont.launchers.base import check_run
from horizont.launchers.execute import RunPaths, execute
from horizont.launchers.fault_injection import inject
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup, terminating
from horizont.records.files import read_events
from horizont.records.record import Record
from horizont.records.results import FaultReport

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]


def run_with_fault(
    system: str, folder: Path, data: Path, steps: int = 60, **fault: Any
) -> tuple[Record, FaultReport]:
    recorded = "order" if SYSTEMS[system].records_updates else "none"
    run = small_run(
        system,
        record_updates=recorded,
        steps={"warmup": 1, "timed": steps, "instrumented": 0},
        fault={"target": "worker", "rank": 1, "at_step": 5, **fault},
        stall_timeout_s=5,
    )
    record = execute(run, "key", RunPaths(folder, data, {}), lambda done, planned: None)
    report = record.fault_report()
    assert report is not None, record.result.reason
    assert record.is_final
    return record, report


def check_updates(record: Record, parts: int) -> None:
    """Check that the fault interrupted at most the last step of each worker."""
    history = record.result.update_history
    assert history is not None
    assert not history.defects, history.examples
    assert history.applied + history.in_flight == history.pushed
    assert history.in_flight <= parts * record.run.topology.workers
    assert history.applied == record.updates().num_rows > 5 * parts


@pytest.mark.framework("pytorch")
def test_a_killed_worker_is_detected_by_the_others(tmp_path: Path, small_cifar: Path) -> None:
    record, report = run_with_fault(
        "pytorch/sync/allreduce", tmp_path, small_cifar, steps=5000, kind="kill"
    )
    assert (report.target, report.end_reason, report.rejoined) == ("worker-1", "all_exited", None)
    assert report.at_step >= 5
    other, target = sorted(report.processes, key=lambda outcome: outcome.process)
    assert (target.outcome, target.steps_before) == ("injected", report.at_step)
    assert other.outcome == "failed"
    assert "RuntimeError" in other.error
    assert report.first_failure == other
    assert 0 <= (other.error_after_s or -1) <= (other.ended_after_s or -1)
    assert record.result.status == "failed"
    expected = f"worker-1 was killed at step {report.at_step}; worker-0 failed"
    assert record.result.reason.startswith(expected)
    row = fault_outcomes([record]).iloc[0]
    assert (row["outcome"], row["weight_holders"], row["survivors"]) == ("aborts", "", "")


@pytest.mark.framework("pytorch")
def test_the_others_wait_for_a_paused_server(tmp_path: Path, small_cifar: Path) -> None:
    record, report = run_with_fault(
        "pytorch/sync/parameter_server", tmp_path, small_cifar, kind="pause", target="server",
        rank=0, duration_s=0.5,
    )  # fmt: skip
    assert record.ok
    assert (report.target, report.end_reason, report.first_failure) == (
        "server-0",
        "completed",
        None,
    )
    events = [line["event"] for line in read_events(record.folder / "events.jsonl")]
    assert events.index("fault") < events.index("fault_ended")
    row = fault_outcomes([record]).iloc[0]
    assert (row["steps"], row["first_error"], row["outcome"]) == (61, "completed", "completes")


@pytest.mark.framework("mxnet")
def test_a_stalled_run_is_reported(tmp_path: Path, small_cifar: Path) -> None:
    record, report = run_with_fault(
        "mxnet/async/parameter_server", tmp_path, small_cifar, kind="kill"
    )
    assert (report.end_reason, report.first_failure) == ("stalled", None)
    assert record.result.reason.endswith(
        "no progress for 5 s with scheduler-0, server-0, worker-0 still running"
    )
    row = fault_outcomes([record]).iloc[0]
    assert (row["steps"], row["first_error"], row["outcome"]) == (
        61,
        "no error",
        "completes, then hangs",
    )
    assert row["weight_holders"] == "server-0, worker-0"
    check_updates(record, parts=10)
    # The other worker completed, so only the step of the killed one was interrupted.
    assert record.updates()["worker"].to_pylist().count(0) == 61 * 10


@pytest.mark.framework("pytorch")
def test_a_worker_that_restarts_too_late_does_not_rejoin(tmp_path: Path, small_cifar: Path) -> None:
    record, report = run_with_fault(
        "pytorch/async/parameter_server", tmp_path, small_cifar, steps=5000, kind="restart",
        duration_s=0.1,
    )  # fmt: skip
    restarted = report.processes[-1]
    identity = (restarted.process, restarted.role, restarted.rank, restarted.incarnation)
    assert identity == ("worker-1-restarted", "worker", 1, 2)
    assert report.rejoined is False
    assert not record.ok
    assert (record.folder / "logs" / "worker-1-restarted.log").exists()
    check_updates(record, parts=1)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessGroup]:
    """Start a process that only sleeps."""
    command = (sys.executable, "-c", "import time; time.sleep(60)")
    job = TraceJob.model_construct(kind="trace")
    group = ProcessGroup(
        ProcessPlan("sleeper", "host-0", command, {}, tmp_path / "sleeper", job),
        tmp_path / "log",
    )
    with terminating([group]):
        yield group


def test_a_throttled_process_is_stopped_and_resumed_in_turns(sleeper: ProcessGroup) -> None:
    fault = FaultSpec(kind="throttle", target="worker", cpu_fraction=0.25)
    actions = inject(fault, sleeper, lambda: None, None)  # type: ignore[arg-type]
    for pause_s, is_stopped in [(0.075, True), (0.025, False)] * 2:
        assert next(actions) == pytest.approx(pause_s)
        wait_for(lambda expected=is_stopped: sleeper.is_stopped() is expected, "state", 5)


def test_hosts_are_disconnected_by_their_cluster(sleeper: ProcessGroup) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.calls: list[tuple[str, str]] = []

        def disconnect(self, host: str) -> None:
            self.calls.append(("disconnect", host))

        def reconnect(self, host: str) -> None:
            self.calls.append(("reconnect", host))

    cluster = Recorder()
    fault = FaultSpec(kind="disconnect", target="worker", duration_s=3)
    assert list(inject(fault, sleeper, lambda: None, cluster)) == [3]
    assert cluster.calls == [("disconnect", "host-0"), ("reconnect", "host-0")]


def test_a_disconnect_needs_a_launcher_that_can_do_it() -> None:
    fault = {"kind": "disconnect", "target": "worker", "at_step": 3}
    run = small_run("pytorch/sync/allreduce", fault=fault)
    with pytest.raises(UserError, match=r"faults: 'disconnect' .* emulated"):
        check_run(run)
    emulated = {"launcher": "emulated", "workers": 2}
    check_run(small_run("pytorch/sync/allreduce", fault=fault, topology=emulated))


def test_no_signal_is_sent_after_the_process_was_reaped(sleeper: ProcessGroup) -> None:
    # By then another process may have its ID.
    sleeper.signal(signal.SIGKILL)
    sleeper.reap()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        sleeper.process.pid = other.pid
        sleeper.signal(signal.SIGKILL)
        time.sleep(0.1)
        assert other.poll() is None
        other.kill()


LAUNCHER = """
import os, signal, sys
from pathlib import Path
from horizont.config.jobs import TraceJob
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup
folder = Path(sys.argv[1])
plan = ProcessPlan("p", "", ("sleep", "60"), {}, folder, TraceJob.model_construct())
group = ProcessGroup(plan, folder.with_suffix(".log"))
group.signal(signal.SIGSTOP)  # before it can request a signal itself
print(group.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_stopped_process_dies_with_its_launcher(tmp_path: Path) -> None:
    launcher = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(tmp_path / "p")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert launcher.returncode == -signal.SIGKILL, launcher.stderr
    wait_for(lambda: not psutil.pid_exists(int(launcher.stdout)), "it is alive", 5)
