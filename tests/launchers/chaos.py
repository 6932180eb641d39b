"""One chaos case: a run, a process of it that is killed or stopped at a random moment, and a check
of everything that the run might leave behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.conftest import horizont_processes, small_run

from horizont.config.run import Run
from horizont.config.system import SYSTEMS
from horizont.launchers.execute import RunPaths, execute
from horizont.records.files import read_events
from horizont.records.record import Record, RecordWriter

ROOT = Path(__file__).parents[2]

#: Stages of a process after which it can happen.
STAGES = ("spawned", "interpreter", "framework", "data", "network", "first_step")
#: Relative frequency of each: the early ones are the fastest.
WEIGHTS = (3, 3, 2, 1, 1, 2)

SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP}

STALL_TIMEOUT_S, TIMEOUT_S = 10, 90

LAUNCHER = """
import signal, sys
from pathlib import Path
from tests.launchers.chaos import launch
signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line does
try:
    launch(*map(Path, sys.argv[1:3]), *sys.argv[3:6])
except KeyboardInterrupt:
    sys.exit(130)
"""


@dataclass(frozen=True)
class Case:
    """What happens to which process.

    Attributes
    ----------
    target
        Name of a process, ``sampler``, or empty if only the launcher gets a signal.
    action
        ``kill`` or ``pause``.
    launcher
        The signal that the launcher gets right after the target.
    """

    system: str
    target: str = ""
    action: str = "kill"
    launcher: int = 0
    steps: int = 5000

    @property
    def key(self) -> str:
        """Key of the record, and seed of the moment."""
        last = signal.Signals(self.launcher).name.lower() if self.launcher else ""
        return "-".join(filter(None, [self.target, self.action if self.target else "", last]))

    def run(self) -> Run:
        steps = {"warmup": 1, "timed": self.steps, "instrumented": 0}
        return small_run(
            self.system, steps=steps, sampler_hz=2 if "sampler" in self.key else 0,
            stall_timeout_s=STALL_TIMEOUT_S, timeout_s=TIMEOUT_S,
        )  # fmt: skip


@dataclass
class Observation:
    """The run as it was when it happened."""

    pids: dict[str, int] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    happened: bool = False
    moment: str = ""


def launch(store: Path, data: Path, system: str, key: str, steps: str) -> None:
    """Execute the run of a case in this process, the launcher that gets a signal."""
    run = Case(system, steps=int(steps)).run().model_copy(update={"sampler_hz": 2})
    execute(run, key, RunPaths(store, data, {}), lambda done, planned: None)


def run_case(case: Case, store: Path, data: Path) -> Record | None:
    """Run a case and check that nothing is left but the record, if there is to be one."""
    observation = Observation()
    if case.launcher:
        _run_with_launcher(case, store, data, observation)
        record = None
    else:
        record = _run_without_launcher(case, store, data, observation)
    check_nothing_left(observation, case, store)
    if record is not None:
        check_record(record, case, observation)
    return record


def _run_without_launcher(case: Case, store: Path, data: Path, observation: Observation) -> Record:
    is_over = threading.Event()
    monkey = threading.Thread(target=_act, args=(case, store, observation, is_over.is_set))
    monkey.start()
    try:
        return execute(case.run(), case.key, RunPaths(store, data, {}), lambda done, planned: None)
    finally:
        is_over.set()
        monkey.join()


def _run_with_launcher(case: Case, store: Path, data: Path, observation: Observation) -> None:
    arguments = [str(store), str(data), case.system, case.key, str(case.steps)]
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, *arguments],
        cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _act(case, store, observation, lambda: launcher.poll() is not None)
        launcher.send_signal(case.launcher)
        _, errors = launcher.communicate(timeout=30)
    finally:
        launcher.kill()
        launcher.wait()
    if case.launcher == signal.SIGKILL:
        wait_until(lambda: not horizont_processes(store / f".{case.key}"), 10)
        RecordWriter.remove_abandoned(store)
    else:
        assert launcher.returncode == 130, errors
    assert not (store / case.key).exists()


def _act(case: Case, store: Path, observation: Observation, is_over: Callable[[], bool]) -> None:
    """Wait for the moment and send the signal."""
    dice = random.Random(f"{case.system} {case.key}")
    stage = dice.choices(STAGES, WEIGHTS)[0]
    watched = case.target if case.target not in ("", "sampler") else "worker-0"
    info = SYSTEMS[case.system]
    is_service = watched.rsplit("-", 1)[0] in info.service_roles
    if is_service and STAGES.index(stage) > STAGES.index("framework"):
        # A service logs no later stages, so the coordinator's stage decides.
        watched = "chief-0" if "chief" in info.roles else "worker-0"
    while not (folder := _reached(store, case.key, watched, stage)):
        if is_over():
            return
        time.sleep(0.02)
    delay_s = dice.uniform(0, 0.5)
    time.sleep(delay_s)
    observation.moment = f"{delay_s:.2f} s after {stage} of {watched}"
    try:
        while (case.target or "worker-0") not in observation.pids and not is_over():
            observe(folder, observation)
    except (FileNotFoundError, json.JSONDecodeError):
        return  # the run is over, and its folder has been renamed
    if case.target:
        try:
            os.kill(observation.pids[case.target], SIGNALS[case.action])
        except ProcessLookupError:
            return  # over, too
    observation.happened = True


def _reached(store: Path, key: str, process: str, stage: str) -> Path | None:
    """Return the incomplete record in which a process has reached a stage."""
    for folder in store.glob(f".{key}.*.tmp"):
        events = read_events(folder / "processes" / process / "events.jsonl")
        events += [
            event for event in read_events(folder / "events.jsonl")
            if event.get("process") == process
        ]  # fmt: skip
        if any(event["event"] == stage for event in events):
            return folder
    return None


def observe(folder: Path, observation: Observation) -> None:
    """Record the processes and the ports of the run."""
    for event in read_events(folder / "events.jsonl"):
        if event["event"] == "started":
            observation.pids[event["process"]] = event["pid"]
    for job in (folder / "processes").glob("*/job.json"):
        for endpoints in json.loads(job.read_text())["endpoints"].values():
            observation.ports.update(int(endpoint.rsplit(":", 1)[1]) for endpoint in endpoints)
    for process in horizont_processes(folder):
        if "horizont.monitoring.sampler" in process.cmdline():
            observation.pids["sampler"] = process.pid


def check_nothing_left(observation: Observation, case: Case, store: Path) -> None:
    """Check that no processes, listening ports and temporary files of the run are left."""
    wait_until(lambda: not members(observation), 5, lambda: f"{case}: {members(observation)}")
    # The kernel may close the sockets of a killed process a little later.
    ports = observation.ports
    wait_until(lambda: not ports & listening(), 5, lambda: f"{case}: {ports & listening()}")
    assert not [path.name for path in store.glob(f".{case.key}.*")], case
    hidden = list(store.glob(f"{case.key}/**/.*"))
    assert not hidden, (case, hidden)
    assert not (store / case.key / "processes").exists(), case


def members(observation: Observation) -> list[str]:
    """List the live processes of the run's sessions: each of its processes led one."""
    described = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) in observation.pids.values():
                command = " ".join(process.cmdline())
                described.append(f"{process.pid} {process.status()} {command}")
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return described


def listening() -> set[int]:
    """Return the ports of this machine on which a process listens."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A":
                ports.add(int(columns[1].rsplit(":", 1)[1], 16))
    return ports


def check_record(record: Record, case: Case, observation: Observation) -> None:
    """Check that the record says what happened."""
    facts: Any = (case, observation.moment, record.result.status, record.result.reason)
    happened = observation.happened
    if case.target == "sampler":
        assert record.ok, facts
        events = read_events(record.folder / "events.jsonl")
        reasons = [event["reason"] for event in events if event["event"] == "sampler_ended"]
        assert not happened or reasons[0], events
        return
    if record.ok:
        # The run was over before it happened, or it happened to a process that was not needed
        # any more, or to one of those that train on without each other.
        is_independent = "tensorflow/async" in case.system
        assert not happened or is_independent or case.steps < 1000, facts
        return
    assert record.result.status == "failed", facts
    assert happened, facts
    names = [name for name in observation.pids if name in record.result.reason]
    assert names, facts
    if case.action == "kill":
        assert case.target in names, facts
    if "still running" in record.result.reason:
        assert f"{case.target} (stopped)" in record.result.reason, facts


def wait_until(
    condition: Callable[[], bool], timeout_s: float, describe: Callable[[], str] = str
) -> None:
    """Wait for a condition; fail after a time."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"timeout {describe()}"
        time.sleep(0.02)
