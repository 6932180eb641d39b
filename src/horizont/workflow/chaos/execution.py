"""Execution of a chaos case: its launcher, the fault at its moment, and the end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from horizont.config.system import parse_system
from horizont.config.workload import Workload
from horizont.monitoring.process_control import child_environment
from horizont.records.record import find_record
from horizont.workflow.chaos import clocks
from horizont.workflow.chaos.cases import SHORT_RUN, TIMEOUT_S, Case, chaos_run
from horizont.workflow.chaos.checks import (
    POLL_S,
    Outcome,
    check_end,
    check_record,
    check_remains,
    last_line,
)
from horizont.workflow.chaos.faults import FAULTS
from horizont.workflow.chaos.observation import (
    AGENT_MODULE,
    SAMPLER_MODULE,
    VARIABLE,
    Observation,
)

LAUNCH_MODULE = "horizont.workflow.chaos.launch"

#: Key of all records: a run replaces the record of the one before.
KEY = "case"

#: A launcher that runs longer hangs: start-up has no time limit of its own, but takes less.
DEADLINE_S = TIMEOUT_S + 120.0


@dataclass(frozen=True)
class Bench:
    """The folders of chaos cases, the workload of their runs, and the library of their clocks."""

    folder: Path
    data_folder: Path
    workload_name: str
    workload: Workload
    clock_library: Path | None

    @property
    def store(self) -> Path:
        """The folder of the records."""
        return self.folder / "records"

    @property
    def scratch(self) -> Path:
        """The folder of all temporary files."""
        return self.folder / "scratch"


@contextmanager
def open_bench(data_folder: Path, workload_name: str, workload: Workload) -> Iterator[Bench]:
    """Create the folders of chaos cases, removed at the end of the context."""
    folder = Path(tempfile.mkdtemp(prefix="horizont-chaos-"))
    try:
        library = clocks.build_library(folder)
        bench = Bench(folder, data_folder, workload_name, workload, library)
        bench.store.mkdir()
        bench.scratch.mkdir()
        yield bench
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_case(case: Case, bench: Bench) -> Outcome:
    """Run a case and check that nothing is left but the record, if there is to be one."""
    shutil.rmtree(bench.store / KEY, ignore_errors=True)
    outcome = Outcome(case)
    run = case.run(bench.workload_name, bench.workload)
    with _launched(run.model_dump(mode="json"), bench) as (launcher, observation, log):
        try:
            outcome.happened = _inject(outcome, observation, launcher)
        except psutil.NoSuchProcess:
            outcome.happened = False
        outcome.status = _wait(launcher, DEADLINE_S)
        if outcome.status is None:
            outcome.defects.append(f"the launcher still ran after {DEADLINE_S:g} s")
            _end(launcher)
        outcome.defects += check_remains(outcome, observation, bench.scratch)
        outcome.defects += check_end(outcome, log)
    outcome.record = find_record(bench.store, KEY)
    outcome.defects += check_record(outcome)
    return outcome


def run_without_fault(launcher: str, system: str, bench: Bench) -> str:
    """Execute a run that follows the cases; return why it did not succeed, or an empty string.

    It replaces the record of the last case.
    """
    run = chaos_run(launcher, system, bench.workload_name, bench.workload, SHORT_RUN)
    with _launched(run.model_dump(mode="json"), bench) as (launcher_process, _, log):
        if _wait(launcher_process, DEADLINE_S) != 0:
            return f"the run after the cases failed: {last_line(log)}"
    record = find_record(bench.store, KEY)
    assert record is not None
    return record.result.reason


@contextmanager
def _launched(
    run: dict[str, object], bench: Bench
) -> Iterator[tuple[subprocess.Popen[bytes], Observation, Path]]:
    """Start a launcher with a run; no process of it outlives the context."""
    observation = Observation(bench.store, KEY)
    job, log = bench.folder / "job.json", bench.folder / "log"
    folders = {"store": str(bench.store), "data_folder": str(bench.data_folder)}
    job.write_text(json.dumps({"run": run, "key": KEY, **folders}), encoding="utf-8")
    environment = {VARIABLE: observation.mark, "TMPDIR": str(bench.scratch)}
    environment |= clocks.clock_variables(bench.clock_library, bench.folder / "clocks")
    with log.open("wb") as output:
        launcher = subprocess.Popen(
            [sys.executable, "-m", LAUNCH_MODULE, str(job)],
            env=child_environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield launcher, observation, log
    finally:
        _end(launcher)
        for process in observation.processes():
            _kill(process)


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """Interrupt a launcher that still runs; kill it if it does not end."""
    if launcher.poll() is None:
        launcher.send_signal(signal.SIGINT)
        if _wait(launcher, 30) is None:
            launcher.kill()
            launcher.wait()


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _wait(launcher: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    try:
        return launcher.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def _inject(outcome: Outcome, observation: Observation, launcher: subprocess.Popen[bytes]) -> bool:
    """Wait for the moment and inject the fault; return whether its target was alive."""
    case = outcome.case
    watched = case.target if case.target_kind == "process" else "worker-0"
    roles = parse_system(case.system).info
    if watched.rpartition("-")[0] in roles.service_roles and case.stage not in _SERVICE_STAGES:
        # A service logs no later stages, so those of another process decide.
        watched = "chief-0" if "chief" in roles.roles else "worker-0"
    while not observation.has_reached(watched, case.stage):
        if launcher.poll() is not None:
            return False
        time.sleep(POLL_S)
    time.sleep(case.delay_s)
    target = _await_target(case, observation, launcher)
    if target is None or launcher.poll() is not None:
        return False
    outcome.ports = observation.ports()
    case.what.inject(target)
    outcome.injected_s = time.monotonic()
    if case.launcher_fault:
        FAULTS[case.launcher_fault].inject(psutil.Process(launcher.pid))
    return True


#: What services log, too.
_SERVICE_STAGES = ("spawned", "started", "interpreter", "framework")


def _await_target(
    case: Case, observation: Observation, launcher: subprocess.Popen[bytes]
) -> psutil.Process | None:
    """Return the process of the target, once it is there; None if the run has ended."""
    while launcher.poll() is None:
        if (target := _find_target(case, observation, launcher)) is not None:
            return target
        if case.target_kind == "process" and observation.has_reached(case.target, "started"):
            return None  # it has ended
        time.sleep(POLL_S)
    return None


def _find_target(
    case: Case, observation: Observation, launcher: subprocess.Popen[bytes]
) -> psutil.Process | None:
    match case.target_kind:
        case "launcher":
            return psutil.Process(launcher.pid)
        case "sampler":
            return observation.helper(SAMPLER_MODULE)
        case "agent":
            return observation.helper(AGENT_MODULE, int(case.target.rpartition("-")[2]))
        case _:
            return observation.planned_process(case.target)
