"""`horizont chaos`: cases that a seed decides, checks that can fail, and the command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import small_run

from horizont.cli import main
from horizont.config.system import SYSTEMS
from horizont.records.record import Record
from horizont.records.results import RunResult, UpdateHistory
from horizont.workflow.chaos import checks
from horizont.workflow.chaos.cases import Case, draw_case, has_agents
from horizont.workflow.chaos.checks import Outcome, check_end, check_record, check_remains
from horizont.workflow.chaos.clocks import find_compiler
from horizont.workflow.chaos.command import CHAOS_LAUNCHERS
from horizont.workflow.chaos.faults import FAULTS
from horizont.workflow.chaos.observation import VARIABLE, Observation

KILLED = Case("local", "pytorch/sync/allreduce", "kill", "worker-1", "first_step", 0.1)


def drawn(seed: int, numbers: range) -> list[Case]:
    workload = small_run().workload
    return [draw_case(seed, number, CHAOS_LAUNCHERS, list(SYSTEMS), workload) for number in numbers]


def test_a_seed_decides_the_cases() -> None:
    assert drawn(1, range(20)) == drawn(1, range(20))
    assert drawn(1, range(20)) != drawn(2, range(20))


def test_all_faults_launchers_and_kinds_of_targets_are_drawn() -> None:
    listed = drawn(1, range(400))
    possible = {
        name
        for name, fault in FAULTS.items()
        if not fault.drains_node and (find_compiler() or not fault.sets_clock)
    }
    assert {case.fault for case in listed} == possible
    assert {case.launcher for case in listed} == set(CHAOS_LAUNCHERS)
    kinds = {case.target_kind for case in listed}
    assert kinds == {"process", "sampler", "agent", "launcher"}
    for case in listed:
        assert case.target_kind in FAULTS[case.fault].targets
        assert case.target_kind != "agent" or has_agents(case.launcher)
        if case.fault == "disconnect":
            assert case.launcher in ("emulated", "emulated_agents")
            assert not case.system.endswith("local")


def test_what_is_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "REMAIN_S", 0.2)
    store, scratch = tmp_path / "records", tmp_path / "scratch"
    (store / ".case.1.tmp").mkdir(parents=True)
    scratch.mkdir()
    (scratch / "forgotten").touch()
    observation = Observation(store, "case")
    with subprocess.Popen(["sleep", "60"], env={**os.environ, VARIABLE: observation.mark}) as left:
        # While a program is loaded its environment is empty, and nothing is found.
        while not observation.processes():
            assert left.poll() is None
        defects = check_remains(Outcome(KILLED, True, 0), observation, scratch)
        left.kill()
    assert len(defects) == 3
    assert "1 processes left" in defects[0]
    assert ".case.1.tmp" in defects[1]
    assert "forgotten" in defects[2]
    # The half record is that of a launcher that no longer runs, and is still there.
    assert check_remains(Outcome(KILLED, True, 0), observation, scratch) == [defects[1]]


@pytest.mark.parametrize(
    ("status", "reason", "defect"),
    [
        ("ok", "", "without a process that it needs"),
        ("failed", "", "without a reason"),
        ("failed", "worker-0 was killed by signal 9", "another process"),
        ("failed", "worker-1 was killed by signal 9", ""),
    ],
)
def test_a_record_has_to_say_what_happened(status: str, reason: str, defect: str) -> None:
    result = RunResult.model_validate({"status": status, "reason": reason})
    run = KILLED.run("lenet5-cifar10", small_run().workload)
    record = Record(Path("case"), run, {}, result)
    found = check_record(Outcome(KILLED, True, 0, record))
    assert bool(found) == bool(defect)
    assert all(defect in one for one in found)


def test_a_launcher_ends_as_its_fault_demands(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback\nOSError: oh\n\n", encoding="utf-8")
    assert check_end(Outcome(KILLED, True, 1), log) == [
        "the launcher ended with status 1: OSError: oh"
    ]
    interrupted = Case("local", "pytorch/local", "interrupt", "launcher", "spawned", 0.1)
    assert not check_end(Outcome(interrupted, True, 130), log)
    assert check_end(Outcome(interrupted, True, 0), log)
    assert check_end(Outcome(interrupted, True, -9), log)
    assert check_end(Outcome(interrupted, False, 130), log)


def test_a_run_that_fails_by_itself_is_a_defect() -> None:
    result = RunResult.model_validate({"status": "failed", "reason": "worker-0 failed"})
    record = Record(Path("case"), small_run(), {}, result)
    assert check_record(Outcome(KILLED, False, 0, record))
    assert check_record(Outcome(KILLED, True, 130, record))


def test_an_update_that_no_fault_explains_is_a_defect() -> None:
    case = Case("local", "pytorch/async/parameter_server", "kill", "worker-1", "first_step", 0.1)
    run = case.run("lenet5-cifar10", small_run().workload)
    assert run.record_updates == "order"
    for defects, examples in (({}, ()), ({"lost": 2}, ("the gradient of p was lost",))):
        history = UpdateHistory(
            pushed=9, applied=7, in_flight=2, defects=defects, examples=examples
        )
        reason = "worker-1 was killed by signal 9"
        result = RunResult(status="failed", reason=reason, update_history=history)
        record = Record(Path("case"), run, {}, result)
        assert check_record(Outcome(case, True, 0, record)) == list(examples)


@pytest.mark.parametrize(
    "arguments",
    [["--launcher", "slurn"], ["--launcher", "slurm"], ["--cases", "0"], ["--case", "x"]],
)
def test_a_wrong_option_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", *arguments]) == 2
    assert arguments[0] in capsys.readouterr().err
