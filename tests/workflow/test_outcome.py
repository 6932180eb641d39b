"""What `horizont verify` and `horizont run` print: the result and the next command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import ROOT, change_setting
from tests.equivalence.test_compare import certificate_of_three, trace

from horizont.equivalence.certificate import EquivalenceCertificate
from horizont.records.record import Record
from horizont.records.results import RunResult
from horizont.workflow.console import program
from horizont.workflow.outcome import show_certificate, show_outcome
from horizont.workflow.paths import Paths
from horizont.workflow.profiles import apply_profile
from horizont.workflow.reference import open_pack
from horizont.workflow.results import MAX_LINES
from horizont.workflow.verify import TRACE_RUNS, verify_workload

WORKLOAD = "lenet5-cifar10"


def certificate(shift: float = 0.0) -> EquivalenceCertificate:
    """Compare three frameworks, of which the last has another gradient."""
    values = {"gradient__0__conv1.weight": trace()["gradient/0/conv1.weight"] + shift}
    made = certificate_of_three(trace(**values))
    return made.model_copy(update={"workload": WORKLOAD, "missing": {"mxnet": "not installed"}})


@pytest.mark.parametrize(
    ("shift", "is_mutated", "named", "following"),
    [
        (0.0, False, "Equivalent: ", "next: horizont run local lenet5-cifar10, which has"),
        (0.1, False, "c differs from all others, which agree", "next: horizont notebook equiv"),
        (0.1, True, "c differs from all others, which agree", "next: horizont verify lenet5-cif"),
    ],
)
def test_verify_ends_with_what_follows(
    study_folder: Paths,
    capsys: pytest.CaptureFixture[str],
    shift: float,
    is_mutated: bool,
    named: str,
    following: str,
) -> None:
    show_certificate(certificate(shift), study_folder, is_mutated=is_mutated)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MAX_LINES
    assert lines[0].startswith("Equivalent: " if not shift else "Not equivalent: ")
    assert any(line.startswith(named) for line in lines)
    assert "MXNet was not compared: not installed" in lines
    assert lines[-1].startswith(following)


def outcome_of(experiment: str, study: Paths, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what is printed of the runs of an experiment in the reference."""
    apply_profile(study, "full")
    pack, _ = open_pack(experiment, Paths(ROOT))
    show_outcome(experiment, pack.records(WORKLOAD), study)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MAX_LINES
    return lines


def test_many_outcomes_of_faults_are_counted(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = outcome_of("faults", study_folder, capsys)
    (heading,) = (line for line in lines if "aborts" in line)
    assert heading.split() == [
        "system",
        "completes",
        "completes,",
        "then",
        "hangs",
        "aborts",
        "hangs",
    ]
    counts = [line.split()[-4:] for line in lines if "synchronous, " in line]
    assert len(counts) == 8
    assert sum(int(number) for row in counts for number in row) == 63


def test_faults_without_a_report_are_no_outcome(
    study_folder: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_profile(study_folder, "full")
    monkeypatch.setattr(Record, "fault_report", lambda record: None)
    result = RunResult(status="failed", reason="it did not start")
    records = open_pack("faults", Paths(ROOT))[0].records(WORKLOAD)
    show_outcome("faults", [replace(record, result=result) for record in records], study_folder)
    assert "No run with a fault has ended with a report." in capsys.readouterr().out


def test_notes_get_the_width_that_the_numbers_leave(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = outcome_of("staleness", study_folder, capsys)
    rows = [line for line in lines if "parameter server" in line]
    assert [row.split()[:3] for row in rows[::2]] == [[size, "x", "42"] for size in "248"]
    assert all(" (75%) " in row and "recording its" in row for row in rows)
    assert any(line.startswith("The mean staleness of an update is") for line in lines)


def test_failed_runs_alone_are_not_followed_by_a_certificate(
    study_folder: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    apply_profile(study_folder, "full")
    result = RunResult(status="failed", reason="worker-0 ended with status 1: No space left")
    records = [
        replace(record, result=result)
        for record in open_pack("local", Paths(ROOT))[0].records(WORKLOAD)
    ]
    show_outcome("local", records, study_folder)
    *_, failure, following = capsys.readouterr().out.splitlines()
    assert "No space left" in failure
    assert following.startswith("next: horizont run local, without the cause; see ")
    assert following.endswith("/logs")


@pytest.mark.framework("pytorch")
def test_an_unstable_training_is_named_before_the_verdict_on_its_rounding(
    study_folder: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horizont.workflow.verify.TRACE_RUNS", TRACE_RUNS[:1])
    change_setting(study_folder, f"workloads.{WORKLOAD}.optimizer", {"learning_rate": 0.05})
    verify_workload(WORKLOAD, study_folder)
    assert capsys.readouterr().out == ""
    unstable = {"learning_rate": 9, "momentum": 0.9}
    change_setting(study_folder, f"workloads.{WORKLOAD}.optimizer", unstable)
    verify_workload(WORKLOAD, study_folder)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("The training is unstable, as the loss of step 3 is ")
    assert "a smaller optimizer.learning_rate, or optimizer.clip_norm" in line


@pytest.mark.parametrize(
    ("started", "named"),
    [(".venv/bin/horizont", ".venv/bin/horizont"), ("horizont", "horizont"), ("-c", "horizont")],
)
def test_the_next_command_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str, named: str
) -> None:
    script = tmp_path / "horizont"
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    # The shell gives the whole path of a program that it finds on its own.
    monkeypatch.setattr("sys.argv", [str(script) if started == "horizont" else started])
    assert program() == named
