"""What is read from the aftermath of an incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import small_run

from horizont.analysis import incidents
from horizont.records import Aftermath, Fate, Record, RecordWriter, Result, read_record
from horizont.report import incident_table


def record(folder: Path, system: str, incident: dict[str, Any], found: Aftermath | None) -> Record:
    writer = RecordWriter(folder, "key")
    writer.start(small_run(system, incident={"at_step": 2, **incident}), {})
    if found is not None:
        writer.aftermath(found)
    return read_record(writer.finish(Result(status="failed", reason="it never came")))


def fate(process: str, end: str, steps: int | None = None, **more: Any) -> Fate:
    role, rank = process.split("-")[:2]
    counted = {} if steps is None else {"steps_before": 2, "steps_after": steps - 2}
    return Fate(process=process, role=role, rank=int(rank), end=end, **counted, **more)


def aftermath(process: str, over: str, *fates: Fate, **more: Any) -> Aftermath:
    return Aftermath(process=process, at_step=2, over=over, over_s=9.0, fates=fates, **more)


def test_servers_hold_the_weights_together(tmp_path: Path) -> None:
    """TensorFlow's workers hold none, so that a lost server takes them along."""
    made = record(
        tmp_path, "tensorflow/async/parameter_server", {"kind": "killed", "role": "server"},
        aftermath(
            "server-0", "ended", fate("server-0", "struck"), fate("worker-0", "running"),
            fate("worker-1", "running"),
            fate("chief-0", "failed", 2, end_s=5.0, error_s=1.5, words="UnavailableError: gone"),
        ),
    )  # fmt: skip
    row = incidents([made]).iloc[0]
    assert (row["noticed_s"], row["how"]) == (1.5, "UnavailableError: gone")
    assert (row["survivors"], row["weights"]) == ("worker-0, worker-1", "")
    assert (row["steps"], row["planned"], row["outcome"]) == (2, 7, "ends")
    assert not made.troubled


def test_one_worker_of_all_reduce_holds_them_all(tmp_path: Path) -> None:
    found = aftermath(
        "worker-1", "stalled", fate("worker-0", "running", 3), fate("worker-1", "running", 2)
    )
    made = record(
        tmp_path, "pytorch/sync/allreduce", {"kind": "frozen", "role": "worker", "rank": 1}, found
    )
    row = incidents([made]).iloc[0]
    assert (row["survivors"], row["weights"]) == ("worker-0", "worker-0")
    assert (row["steps"], row["how"], row["outcome"]) == (3, "no sign", "hangs")


def test_the_first_of_several_errors_is_the_notice(tmp_path: Path) -> None:
    found = aftermath(
        "worker-1", "ended", fate("worker-1", "failed", 2, end_s=0.1, words="of the victim"),
        fate("worker-0", "failed", 2, end_s=3.0, error_s=0.3, words="first"),
        fate("server-0", "failed", end_s=0.5, words="second"),
    )  # fmt: skip
    made = record(
        tmp_path, "pytorch/async/parameter_server",
        {"kind": "restarted", "role": "worker", "rank": 1, "for_s": 1}, found,
    )  # fmt: skip
    assert incidents([made]).iloc[0]["how"] == "first"


@pytest.mark.parametrize(("again", "words"), [(True, "with the"), (False, "without the")])
def test_the_table_tells_who_was_taken_in(tmp_path: Path, again: bool, words: str) -> None:
    found = aftermath(
        "worker-1", "finished", fate("worker-1", "struck"), fate("chief-0", "finished", 7),
        fate("server-0", "running"), taken_in=again,
    )  # fmt: skip
    made = record(
        tmp_path, "tensorflow/async/parameter_server",
        {"kind": "restarted", "role": "worker", "rank": 1, "for_s": 1}, found,
    )  # fmt: skip
    page = incident_table(incidents([made])).html()
    assert f"goes on, {words} one started again" in page
    assert "worker 1 restarted for 1 s" in page
    assert "7 of 7" in page


def test_an_incident_that_never_came_is_a_row_with_its_reason(tmp_path: Path) -> None:
    made = record(tmp_path, "pytorch/local", {"kind": "killed", "role": "worker"}, None)
    assert made.troubled
    assert "it never came" in incident_table(incidents([made])).html()
