"""The table of fault outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import small_run

from horizont.analysis.faults import fault_outcomes
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import FaultReport, ProcessOutcome, RunResult, UpdateHistory
from horizont.reporting.overview import fault_table


def record(
    folder: Path,
    system: str,
    fault: dict[str, Any],
    report: FaultReport | None,
    updates: UpdateHistory | None = None,
) -> Record:
    writer = RecordWriter(folder, system.replace("/", "-"))
    writer.start(small_run(system, fault={"at_step": 2, **fault}), {})
    if report is not None:
        writer.write_fault_report(report)
    result = RunResult(status="failed", reason="not injected", update_history=updates)
    return read_record(writer.finish(result))


def process(name: str, end: str, steps: int | None = None, **more: Any) -> ProcessOutcome:
    """Build the outcome of a process that made 2 steps before the fault and `steps` in all."""
    role, rank = name.split("-")
    counted = {} if steps is None else {"steps_before": 2, "steps_after": steps - 2}
    return ProcessOutcome(process=name, role=role, rank=int(rank), outcome=end, **counted, **more)


def report(target: str, end_reason: str, *outcomes: ProcessOutcome, **more: Any) -> FaultReport:
    times = {"at_step": 2, "ended_after_s": 9.0}
    return FaultReport(target=target, end_reason=end_reason, processes=outcomes, **times, **more)


RESTART = {"kind": "restart", "target": "worker", "rank": 1, "duration_s": 1}


def test_a_lost_server_takes_its_part_of_the_weights(tmp_path: Path) -> None:
    # Workers of TensorFlow hold no weights, so none are left.
    failure = {"ended_after_s": 5.0, "error_after_s": 1.5, "error": "UnavailableError: gone"}
    fault_report = report(
        "server-0",
        "all_exited",
        process("server-0", "injected"),
        process("worker-0", "running"),
        process("worker-1", "running"),
        process("chief-0", "failed", 2, **failure),
    )
    fault = {"kind": "kill", "target": "server"}
    written = record(tmp_path, "tensorflow/async/parameter_server", fault, fault_report)
    row = fault_outcomes([written]).iloc[0]
    assert (row["detected_after_s"], row["first_error"]) == (1.5, "UnavailableError: gone")
    assert (row["survivors"], row["weight_holders"]) == ("worker-0, worker-1", "")
    assert (row["steps"], row["planned"], row["outcome"]) == (2, 7, "aborts")
    assert not written.failed_unexpectedly


def test_each_worker_of_all_reduce_holds_all_weights(tmp_path: Path) -> None:
    fault_report = report(
        "worker-1", "stalled", process("worker-0", "running", 3), process("worker-1", "running", 2)
    )
    fault = {"kind": "pause", "target": "worker", "rank": 1}
    written = record(tmp_path, "pytorch/sync/allreduce", fault, fault_report)
    row = fault_outcomes([written]).iloc[0]
    assert (row["survivors"], row["weight_holders"]) == ("worker-0", "worker-0")
    assert (row["steps"], row["first_error"], row["outcome"]) == (3, "no error", "hangs")


def test_the_first_error_of_another_process_counts(tmp_path: Path) -> None:
    fault_report = report(
        "worker-1",
        "all_exited",
        process("worker-1", "failed", 2, ended_after_s=0.1, error="of the target"),
        process("worker-0", "failed", 2, ended_after_s=3.0, error_after_s=0.3, error="first"),
        process("server-0", "failed", ended_after_s=0.5, error="second"),
    )
    written = record(tmp_path, "pytorch/async/parameter_server", RESTART, fault_report)
    assert fault_outcomes([written]).iloc[0]["first_error"] == "first"


@pytest.mark.parametrize(("rejoined", "text"), [(True, "with"), (False, "without")])
def test_the_table_says_whether_the_target_rejoined(
    tmp_path: Path, rejoined: bool, text: str
) -> None:
    fault_report = report(
        "worker-1",
        "completed",
        process("worker-1", "injected"),
        process("chief-0", "completed", 7),
        process("server-0", "running"),
        rejoined=rejoined,
    )
    written = record(tmp_path, "tensorflow/async/parameter_server", RESTART, fault_report)
    html = fault_table([written]).html()
    assert f"completes, {text} the restarted process" in html
    assert "worker 1 restarted for 1 s" in html
    assert "7 of 7" in html


def test_a_run_without_a_report_is_a_row_with_its_reason(tmp_path: Path) -> None:
    written = record(tmp_path, "pytorch/local", {"kind": "kill", "target": "worker"}, None)
    assert written.failed_unexpectedly
    assert "not injected" in fault_table([written]).html()


def test_the_table_says_what_became_of_recorded_updates(tmp_path: Path) -> None:
    fault_report = report("worker-1", "stalled", process("worker-0", "running", 7))
    kill = {"kind": "kill", "target": "worker", "rank": 1}
    unrecorded = record(tmp_path, "tensorflow/async/parameter_server", kill, fault_report)
    assert "updates" not in fault_table([unrecorded]).html()
    history = UpdateHistory(
        pushed=90, applied=84, in_flight=5, discarded=20, defects={"out_of_order": 1, "lost": 2}
    )
    recorded = record(tmp_path, "mxnet/async/parameter_server", kill, fault_report, history)
    html = fault_table([unrecorded, recorded]).html()
    text = "84 of 90 applied, 5 in flight, 20 discarded by the restart, 2 lost, 1 out of order"
    assert text in html
