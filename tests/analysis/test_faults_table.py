"""What is read from the aftermath of an incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import small_run

from horizont.analysis.faults import fault_outcomes
from horizont.records.record import Record, RecordWriter, read_record
from horizont.records.results import FaultReport, ProcessOutcome, RunResult
from horizont.reporting.findings import fault_table


def record(
    folder: Path, system: str, incident: dict[str, Any], found: FaultReport | None
) -> Record:
    writer = RecordWriter(folder, "key")
    writer.start(small_run(system, fault={"at_step": 2, **incident}), {})
    if found is not None:
        writer.write_fault_report(found)
    return read_record(writer.finish(RunResult(status="failed", reason="it never came")))


def fate(process: str, end: str, steps: int | None = None, **more: Any) -> ProcessOutcome:
    role, rank = process.split("-")[:2]
    counted = {} if steps is None else {"steps_before": 2, "steps_after": steps - 2}
    return ProcessOutcome(
        process=process, role=role, rank=int(rank), outcome=end, **counted, **more
    )


def aftermath(process: str, over: str, *fates: ProcessOutcome, **more: Any) -> FaultReport:
    return FaultReport(
        target=process, at_step=2, end_reason=over, ended_after_s=9.0, processes=fates, **more
    )


def test_servers_hold_the_weights_together(tmp_path: Path) -> None:
    """TensorFlow's workers hold none, so that a lost server takes them along."""
    made = record(
        tmp_path, "tensorflow/async/parameter_server", {"kind": "kill", "target": "server"},
        aftermath(
            "server-0", "all_exited", fate("server-0", "injected"), fate("worker-0", "running"),
            fate("worker-1", "running"),
            fate("chief-0", "failed", 2, ended_after_s=5.0, error_after_s=1.5, error="UnavailableError: gone"),
        ),
    )  # fmt: skip
    row = fault_outcomes([made]).iloc[0]
    assert (row["detected_after_s"], row["first_error"]) == (1.5, "UnavailableError: gone")
    assert (row["survivors"], row["weight_holders"]) == ("worker-0, worker-1", "")
    assert (row["steps"], row["planned"], row["outcome"]) == (2, 7, "aborts")
    assert not made.failed_unexpectedly


def test_one_worker_of_all_reduce_holds_them_all(tmp_path: Path) -> None:
    found = aftermath(
        "worker-1", "stalled", fate("worker-0", "running", 3), fate("worker-1", "running", 2)
    )
    made = record(
        tmp_path, "pytorch/sync/allreduce", {"kind": "pause", "target": "worker", "rank": 1}, found
    )
    row = fault_outcomes([made]).iloc[0]
    assert (row["survivors"], row["weight_holders"]) == ("worker-0", "worker-0")
    assert (row["steps"], row["first_error"], row["outcome"]) == (3, "no error", "hangs")


def test_the_first_of_several_errors_is_the_notice(tmp_path: Path) -> None:
    found = aftermath(
        "worker-1", "all_exited", fate("worker-1", "failed", 2, ended_after_s=0.1, error="of the victim"),
        fate("worker-0", "failed", 2, ended_after_s=3.0, error_after_s=0.3, error="first"),
        fate("server-0", "failed", ended_after_s=0.5, error="second"),
    )  # fmt: skip
    made = record(
        tmp_path, "pytorch/async/parameter_server",
        {"kind": "restart", "target": "worker", "rank": 1, "duration_s": 1}, found,
    )  # fmt: skip
    assert fault_outcomes([made]).iloc[0]["first_error"] == "first"


@pytest.mark.parametrize(("rejoined", "text"), [(True, "with the"), (False, "without the")])
def test_the_table_says_whether_the_target_rejoined(tmp_path: Path, rejoined: bool, text: str) -> None:
    found = aftermath(
        "worker-1", "completed", fate("worker-1", "injected"), fate("chief-0", "completed", 7),
        fate("server-0", "running"), rejoined=rejoined,
    )  # fmt: skip
    made = record(
        tmp_path, "tensorflow/async/parameter_server",
        {"kind": "restart", "target": "worker", "rank": 1, "duration_s": 1}, found,
    )  # fmt: skip
    page = fault_table(fault_outcomes([made])).html()
    assert f"goes on, {text} one started again" in page
    assert "worker 1 restarted for 1 s" in page
    assert "7 of 7" in page


def test_an_incident_that_never_came_is_a_row_with_its_reason(tmp_path: Path) -> None:
    made = record(tmp_path, "pytorch/local", {"kind": "kill", "target": "worker"}, None)
    assert made.failed_unexpectedly
    assert "it never came" in fault_table(fault_outcomes([made])).html()
