"""Hosts with agents: the same trainings as on this machine, on one clock; nothing remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.conftest import EXTENDED, ROOT, cases, wait_for
from tests.launchers.agents import (
    LEASE_S,
    LOCAL_COMMAND,
    agent_folder,
    agent_processes,
    assert_trained_as_here,
    can_shift_clocks,
    run_on_agents,
    worker_processes,
)

from horizont.errors import UserError
from horizont.launchers.agent import cluster, facts
from horizont.launchers.agent.clock import ClockOffset, drift_s, measure_offset
from horizont.launchers.agent.session import close_sessions
from horizont.monitoring import background
from horizont.workflow.watch import read_status

TWO_HOSTS = {"command": LOCAL_COMMAND, "hosts": ["node0", "node1"], "lease_s": LEASE_S}


@pytest.fixture(scope="module", autouse=True)
def no_agent_left() -> Iterator[None]:
    """Fail if an agent, a worker or a folder of theirs outlives the tests."""
    yield
    close_sessions()
    assert_nothing_on_hosts()


def assert_nothing_on_hosts() -> None:
    _, alive = psutil.wait_procs([*agent_processes(), *worker_processes()], timeout=10)
    assert not alive, [" ".join(process.cmdline()) for process in alive]
    folder = Path(agent_folder())
    assert not list(folder.parent.glob(f"{folder.name}*"))


@pytest.mark.framework("pytorch")
def test_synchronous_training_has_the_losses_of_this_machine(
    tmp_path: Path, small_cifar: Path
) -> None:
    record = run_on_agents(tmp_path, small_cifar)  # test_slurm has all systems
    assert_trained_as_here(record, tmp_path, small_cifar)


@pytest.mark.parametrize(
    "system",
    [
        pytest.param(
            "pytorch/async/parameter_server", marks=[pytest.mark.framework("pytorch"), EXTENDED]
        ),
        pytest.param(
            "tensorflow/async/parameter_server",
            marks=[pytest.mark.framework("tensorflow"), EXTENDED],
        ),
        pytest.param("mxnet/async/parameter_server", marks=pytest.mark.framework("mxnet")),
    ],
)
def test_asynchronous_training_leaves_a_whole_record(
    system: str, tmp_path: Path, small_cifar: Path
) -> None:
    record = run_on_agents(tmp_path, small_cifar, system, sampler_hz=10, save_weights=True)
    assert record.ok, record.result.reason
    steps = record.steps().to_pandas()
    assert len(steps) == 14  # TensorFlow's coordinator gives a step to any free worker
    assert (record.folder / "weights.npz").exists()
    samples = record.samples().to_pandas()
    assert set(samples["host"]) == {"host-0", "host-1"}
    assert {"worker-0", "worker-1", "server-0"} <= set(samples["name"])
    events = record.events()
    assert [event["event"] for event in events].count("clock") == 2
    span_s = (min(e["time_s"] for e in events), max(e["time_s"] for e in events))
    assert span_s[0] <= steps["start_s"].min() < steps["start_s"].max() <= span_s[1]
    assert span_s[0] - 1 <= samples["time_s"].min() < samples["time_s"].max() <= span_s[1] + 1
    hosts = record.environment["hosts"]
    assert [host["machine_number"] for host in hosts.values()] == [0, 0]
    assert record.machine == facts.host_facts()["machine_type"]
    assert {path.name for path in (record.folder / "logs").iterdir()} >= {"worker-0.log"}


@pytest.mark.framework("pytorch", "tensorflow")
@pytest.mark.parametrize(
    "system",
    cases(
        ["pytorch/sync/allreduce", "tensorflow/async/parameter_server"], "pytorch/sync/allreduce"
    ),
)
def test_hosts_with_other_clocks_give_the_same_phases(
    system: str, tmp_path: Path, small_cifar: Path
) -> None:
    if not can_shift_clocks():
        pytest.skip("needs root, to start processes with another monotonic clock")
    shifted = "unshare --fork --kill-child --time --monotonic {host} --boottime {host}"
    options = {"command": shifted, "hosts": ["1000", "-50"], "lease_s": LEASE_S}
    record = run_on_agents(
        tmp_path, small_cifar, system, options=options, steps={"warmup": 2, "timed": 20},
        sampler_hz=10,
    )  # fmt: skip
    assert record.ok, record.result.reason
    clocks = {e["host"]: e for e in record.events() if e["event"] == "clock"}
    assert clocks["host-0"]["offset_s"] == pytest.approx(-1000, abs=0.1)
    assert clocks["host-1"]["offset_s"] == pytest.approx(50, abs=0.1)
    steps = record.steps().to_pandas()
    assert record.result.train_s is not None
    assert record.result.train_s < 60
    spans = steps.groupby("worker")["start_s"].agg(["min", "max"])
    assert abs(spans["min"].diff().iloc[-1]) < 30
    ended_s = next(e["time_s"] for e in record.events() if e["event"] == "ended")
    assert (steps["start_s"] + steps["step_s"]).max() < ended_s
    assert record.samples().to_pandas()["time_s"].between(ended_s - 600, ended_s + 10).all()
    if "waiting_s" in steps and system.startswith("pytorch"):
        exchange_s = steps["waiting_s"] + steps["communication_s"]
        measured = exchange_s.dropna()
        assert (measured < 30).all()
        assert (steps["waiting_s"].dropna() >= 0).all()


@pytest.mark.framework("pytorch")
def test_agents_stay_for_the_next_run(tmp_path: Path, small_cifar: Path) -> None:
    run_on_agents(tmp_path, small_cifar)
    first = {process.pid for process in agent_processes()}
    record = run_on_agents(tmp_path, small_cifar, "pytorch/async/parameter_server")
    assert record.ok, record.result.reason
    assert len(first) == 2
    assert {process.pid for process in agent_processes()} == first
    assert not worker_processes()


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("target", cases(["agent", "frozen agent", "worker"], "agent", "worker"))
def test_a_lost_host_ends_the_run_and_the_next_one_works(
    target: str, tmp_path: Path, small_cifar: Path
) -> None:
    options = TWO_HOSTS | {"lease_s": 2.0} if target == "frozen agent" else TWO_HOSTS
    lost_s: list[float] = []

    def inject() -> None:
        wait_for(lambda: steps_begun(tmp_path) and len(worker_processes()) == 2, "no workers")
        process = worker_processes()[0]
        if target != "worker":
            process = process.parent()
        lost_s.append(time.monotonic())
        process.send_signal(signal.SIGSTOP if target == "frozen agent" else signal.SIGKILL)

    injector = threading.Thread(target=inject)
    injector.start()
    record = run_on_agents(
        tmp_path, small_cifar, options=options, steps={"warmup": 1, "timed": 20000}
    )
    injector.join()
    for process in agent_processes():
        process.send_signal(signal.SIGCONT)
    assert not record.ok
    if target == "worker":
        assert "was killed by signal 9" in record.result.reason
    else:
        assert "is lost" in record.result.reason
    record = run_on_agents(tmp_path, small_cifar, options=TWO_HOSTS)
    assert record.ok, record.result.reason
    assert len(worker_processes()) == 0


def steps_begun(folder: Path) -> bool:
    """Whether the workers of the run below a folder have been started."""
    logs = list(folder.glob(".key.*.tmp/events.jsonl"))
    return any("worker-1" in log.read_text(encoding="utf-8") for log in logs)


LAUNCHER_PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.launchers.agents import run_on_agents
run_on_agents(Path(sys.argv[2]), Path(sys.argv[3]), steps={"warmup": 1, "timed": 20000})
"""


def is_watched(record: Path) -> bool:
    status = read_status(record)
    return len(status.steps) == 2 and set(status.stages.values()) == {"training"}


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("number", cases([signal.SIGKILL, signal.SIGINT], signal.SIGKILL))
def test_hosts_end_everything_without_their_launcher(
    number: signal.Signals, tmp_path: Path, small_cifar: Path
) -> None:
    close_sessions()
    words = [sys.executable, "-c", LAUNCHER_PROGRAM, str(ROOT), str(tmp_path), str(small_cifar)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as launcher:
        wait_for(lambda: len(worker_processes()) == 2, "no worker was started")
        wait_for(lambda: is_watched(tmp_path / "key"), "no steps can be watched")
        launcher.send_signal(number)
        launcher.wait(30)
    assert_nothing_on_hosts()


def test_hosts_with_other_code_are_refused(
    tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_sessions()
    monkeypatch.setattr("horizont.launchers.agent.session.code_digest", lambda: "other")
    with pytest.raises(UserError, match=r"code.*same source code"):
        run_on_agents(tmp_path, small_cifar)
    assert not list(tmp_path.glob(".key*"))


#: The second host does not answer.
LATE_COMMAND = "sh -c 'test $0 = node1 && exec sleep 60; exec \"$@\"' {host}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": "ssh {n}"}, r"topology\.options\.command: 'ssh \{n\}' .* \{host\}"),
        ({"command": "run {node}"}, r"topology\.options\.command: 'run \{node\}' .* \{host\}"),
        ({"command": "'x {host}"}, r"topology\.options\.command: .* \{host\}"),
        ({"hosts": []}, r"topology\.options\.hosts"),
        ({"hosts": ["node0"]}, r"has 1 name, and 2 are needed"),
        ({"command": "no-such-program {host}"}, r"no-such-program is not installed"),
        ({"command": "sh -c 'echo no route >&2; exit 3' {host}"}, r"status 3: no route"),
        (
            {"command": "sh -c 'sleep 60' {host}", "start_timeout_s": 1},
            r"`sh -c 'sleep 60' node0`: 2 of 2 agents did not call back",
        ),
        pytest.param(
            {"command": LATE_COMMAND, "start_timeout_s": 10},
            r"node1`: 1 of 2 agents did not call",
            marks=EXTENDED,
        ),
        ({"command": "sh -c 'echo error: a; echo b; exit 3' {host}"}, r"node\d`: .* 3: error: a;"),
        ({"scratch": "relative"}, r"topology\.options\.scratch: 'relative' .*absolute path"),
        ({"address": "192.0.2.1"}, r"topology\.options\.address: '192\.0\.2\.1'"),
        ({"scratch": "/proc"}, r"status 2: error: topology\.options\.scratch"),
        ({"lease": 5}, r"topology\.options\.lease: .* lease_s"),
    ],
)
def test_a_start_that_cannot_work_is_an_error(
    options: dict[str, object], message: str, tmp_path: Path, small_cifar: Path
) -> None:
    with pytest.raises(UserError, match=message):
        run_on_agents(tmp_path, small_cifar, options=TWO_HOSTS | options)
    assert not list(tmp_path.glob(".key*"))


def test_the_fastest_exchange_gives_the_offset() -> None:
    delays_s = iter([0.02, 0.02, 0.0, *[0.02] * 40])

    def read() -> tuple[float, float]:
        time.sleep(next(delays_s))
        return time.monotonic() - 5.0, time.time() - 7.0

    offset = measure_offset(read)
    assert offset.error_s < 0.005
    assert offset.monotonic_s == pytest.approx(5.0, abs=0.01)
    assert offset.unix_s == pytest.approx(7.0, abs=0.01)


def test_a_drift_is_what_exceeds_the_errors() -> None:
    first, last = ClockOffset(1.0, 1.0, 0.001), ClockOffset(1.0005, 1.0, 0.001)
    assert drift_s(first, last) == 0.0
    assert drift_s(first, ClockOffset(1.01, 1.0, 0.001)) == pytest.approx(0.008)


@pytest.mark.framework("pytorch")
def test_a_drift_disturbs_the_run(
    tmp_path: Path, small_cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "MAX_DRIFT_S", -1.0)
    monkeypatch.setattr(background, "DISTURBED_FRACTION", 2.0)  # other tests run beside this one
    record = run_on_agents(tmp_path, small_cifar)
    assert record.ok, record.result.reason
    assert record.result.disturbed
    assert [event["host"] for event in record.events() if event["event"] == "clock_drift"] == [
        "host-0",
        "host-1",
    ]


@pytest.mark.framework("pytorch")
def test_files_of_killed_agents_are_removed_by_the_next_one(
    tmp_path: Path, small_cifar: Path
) -> None:
    close_sessions()
    abandoned = Path(f"{agent_folder()}0-abandoned")
    abandoned.mkdir()
    (abandoned / ".lock").touch()
    os.utime(abandoned)
    record = run_on_agents(tmp_path, small_cifar)
    assert record.ok, record.result.reason
    assert not abandoned.exists()
