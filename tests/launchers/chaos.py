"""One case of chaos: a run, a process of it that is killed or frozen at a random moment, and a
look at everything that the run might have left behind."""

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

#: The stages of a process's life after which it can happen.
STAGES = ("spawned", "interpreter", "framework", "data", "network", "first_step")
#: How likely each of them is: the early ones cost the least.
WEIGHTS = (3, 3, 2, 1, 1, 2)

SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP}

#: Nobody waits longer than this for anything.
PATIENCE_S, DEADLINE_S = 10, 90

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
    """What happens to whom.

    Attributes
    ----------
    victim
        The name of a process, ``sampler``, or nothing if it happens to the launcher alone.
    how
        ``killed`` or ``frozen``.
    launcher
        The signal that the launcher gets, right after the victim.
    """

    system: str
    victim: str = ""
    how: str = "kill"
    launcher: int = 0
    steps: int = 5000

    @property
    def key(self) -> str:
        """A name for people and files; the seed of the moment, too."""
        last = signal.Signals(self.launcher).name.lower() if self.launcher else ""
        return "-".join(filter(None, [self.victim, self.how if self.victim else "", last]))

    def run(self) -> Run:
        steps = {"warmup": 1, "timed": self.steps, "instrumented": 0}
        return small_run(
            self.system, steps=steps, sampler_hz=2 if "sampler" in self.key else 0,
            stall_timeout_s=PATIENCE_S, timeout_s=DEADLINE_S,
        )  # fmt: skip


@dataclass
class Seen:
    """What was seen of the run when it happened."""

    pids: dict[str, int] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    struck: bool = False
    moment: str = ""


def launch(store: Path, data: Path, system: str, key: str, steps: str) -> None:
    """Execute a case's run in this process: the launcher that is to be killed."""
    case = Case(system, steps=int(steps))
    run = case.run().model_copy(update={"sampler_hz": 2})
    execute(run, key, RunPaths(store, data, {}), lambda done, planned: None)


def carry_out(case: Case, store: Path, data: Path) -> Record | None:
    """Run a case and check that it leaves nothing but the record, if there is to be one."""
    seen = Seen()
    if case.launcher:
        _with_launcher(case, store, data, seen)
        record = None
    else:
        record = _without_launcher(case, store, data, seen)
    check_nothing_left(seen, case, store)
    if record is not None:
        check_record(record, case, seen)
    return record


def _without_launcher(case: Case, store: Path, data: Path, seen: Seen) -> Record:
    over = threading.Event()
    monkey = threading.Thread(target=_strike, args=(case, store, seen, over.is_set))
    monkey.start()
    try:
        return execute(case.run(), case.key, RunPaths(store, data, {}), lambda done, planned: None)
    finally:
        over.set()
        monkey.join()


def _with_launcher(case: Case, store: Path, data: Path, seen: Seen) -> None:
    words = [str(store), str(data), case.system, case.key, str(case.steps)]
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, *words],
        cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _strike(case, store, seen, lambda: launcher.poll() is not None)
        launcher.send_signal(case.launcher)
        _, errors = launcher.communicate(timeout=30)
    finally:
        launcher.kill()
        launcher.wait()
    if case.launcher == signal.SIGKILL:
        until(lambda: not horizont_processes(store / f".{case.key}"), 10)
        RecordWriter.remove_abandoned(store)
    else:
        assert launcher.returncode == 130, errors
    assert not (store / case.key).exists()


def _strike(case: Case, store: Path, seen: Seen, over: Callable[[], bool]) -> None:
    """Wait for the moment and act."""
    dice = random.Random(f"{case.system} {case.key}")
    stage = dice.choices(STAGES, WEIGHTS)[0]
    watched = case.victim if case.victim not in ("", "sampler") else "worker-0"
    traits = SYSTEMS[case.system]
    serves = watched.rsplit("-", 1)[0] in traits.service_roles
    if serves and STAGES.index(stage) > STAGES.index("framework"):
        # It tells no more once it serves: the moment goes by whoever leads.
        watched = "chief-0" if "chief" in traits.roles else "worker-0"
    while not (folder := _reached(store, case.key, watched, stage)):
        if over():
            return
        time.sleep(0.02)
    delay_s = dice.uniform(0, 0.5)
    time.sleep(delay_s)
    seen.moment = f"{delay_s:.2f} s after {stage} of {watched}"
    try:
        while (case.victim or "worker-0") not in seen.pids and not over():
            look_around(folder, seen)
    except (FileNotFoundError, json.JSONDecodeError):
        return  # the run is over, and its folder has moved on
    if case.victim:
        try:
            os.kill(seen.pids[case.victim], SIGNALS[case.how])
        except ProcessLookupError:
            return  # over, too
    seen.struck = True


def _reached(store: Path, key: str, process: str, stage: str) -> Path | None:
    """Name the record in the making if a process in it has reached a stage."""
    for folder in store.glob(f".{key}.*.tmp"):
        lines = read_events(folder / "processes" / process / "events.jsonl")
        if any(line["event"] == stage for line in lines):
            return folder
    return None


def look_around(folder: Path, seen: Seen) -> None:
    """Note the processes and the ports of the run."""
    for line in read_events(folder / "events.jsonl"):
        if line["event"] == "started":
            seen.pids[line["process"]] = line["pid"]
    for job in (folder / "processes").glob("*/job.json"):
        for ends in json.loads(job.read_text())["endpoints"].values():
            seen.ports.update(int(end.rsplit(":", 1)[1]) for end in ends)
    for process in horizont_processes(folder):
        if "horizont.monitoring.sampler" in process.cmdline():
            seen.pids["sampler"] = process.pid


def check_nothing_left(seen: Seen, case: Case, store: Path) -> None:
    """Look for processes, ports and files of the run."""
    until(lambda: not members(seen), 5, lambda: f"{case}: {members(seen)}")
    # The kernel may close what a killed process had open a little after it.
    until(lambda: not seen.ports & listening(), 5, lambda: f"{case}: {seen.ports & listening()}")
    assert not [path.name for path in store.glob(f".{case.key}.*")], case
    hidden = list(store.glob(f"{case.key}/**/.*"))
    assert not hidden, (case, hidden)
    assert not (store / case.key / "processes").exists(), case


def members(seen: Seen) -> list[str]:
    """List what lives of the run's sessions: each of its processes was the leader of one."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) in seen.pids.values():
                found.append(f"{process.pid} {process.status()} {' '.join(process.cmdline())}")
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def listening() -> set[int]:
    """List the ports of this machine on which anyone listens."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                found.add(int(words[1].rsplit(":", 1)[1], 16))
    return found


def check_record(record: Record, case: Case, seen: Seen) -> None:
    """Check that the record says what happened."""
    told: Any = (case, seen.moment, record.result.status, record.result.reason)
    if case.victim == "sampler":
        assert record.ok, told
        events = read_events(record.folder / "events.jsonl")
        reasons = [event["reason"] for event in events if event["event"] == "sampler_ended"]
        assert not seen.struck or reasons[0], events
        return
    if record.ok:
        # It was over before it could happen, or it happened to one that was not needed any more,
        # or to one of those that work on without each other.
        alone = "tensorflow/async" in case.system
        assert not seen.struck or alone or case.steps < 1000, told
        return
    assert record.result.status == "failed", told
    assert seen.struck, told
    names = [name for name in seen.pids if name in record.result.reason]
    assert names, told
    if case.how == "kill":
        assert case.victim in names, told
    if "still running" in record.result.reason:
        assert f"{case.victim} (stopped)" in record.result.reason, told


def until(condition: Callable[[], bool], timeout_s: float, told: Callable[[], str] = str) -> None:
    """Wait for a condition."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"it never happened {told()}"
        time.sleep(0.02)
