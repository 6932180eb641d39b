"""What became of each pushed gradient, from the logs of workers and servers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import small_run

from horizont.config.jobs import APPLIED_FILE, PUSHED_FILE
from horizont.launchers.plan import EVENTS_FILE
from horizont.launchers.update_history import collect_updates, match_updates
from horizont.records.record import RecordWriter, read_record
from horizont.records.results import RunResult, UpdateHistory

Line = dict[str, Any]


def push(worker: int, step: int, on: str, gradient: str) -> Line:
    line = {"part": "p", "step": step, "on": on, "gradient": gradient}
    return {"process": f"worker-{worker}", **line}


def update(before: str, gradient: str, after: str, process: str = "server-0") -> Line:
    line = {"part": "p", "before": before, "gradient": gradient, "after": after}
    return {"process": process, **line}


#: Two workers, of two steps and of one.
PUSHED = [push(0, 0, "w0", "a"), push(0, 1, "w1", "c"), push(1, 0, "w0", "b")]
APPLIED = [update("w0", "a", "w1"), update("w1", "b", "w2"), update("w2", "c", "w3")]


def test_updates_are_matched_by_content() -> None:
    rows, history = match_updates(PUSHED, APPLIED)
    assert [(row["worker"], row["version"], row["staleness"]) for row in rows] == [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, 1),
    ]
    assert [row["sequence"] for row in rows] == [0, 1, 2]
    assert history == UpdateHistory(pushed=3, applied=3)
    assert history.problem == ""


#: A gradient of zeros does not change the weights, and may be that of several workers.
ZEROS = [push(0, 0, "w0", "z"), push(0, 1, "w0", "z"), push(1, 0, "w0", "z")]


def test_equal_gradients_are_matched_in_the_order_of_each_worker() -> None:
    _, history = match_updates(ZEROS, [update("w0", "z", "w0")] * 3)
    assert history == UpdateHistory(pushed=3, applied=3)
    mixed = [push(0, 0, "w0", "a"), push(0, 1, "w1", "z"), push(1, 0, "w0", "z")]
    applied = [update("w0", "z", "w0"), update("w0", "a", "w1"), update("w1", "z", "w1")]
    rows, history = match_updates(mixed, applied)
    assert [(row["worker"], row["step"]) for row in rows] == [(1, 0), (0, 0), (0, 1)]
    assert not history.defects


@pytest.mark.parametrize(
    ("pushed", "applied", "kind", "sentence"),
    [
        (PUSHED, [*APPLIED, update("w3", "c", "w4")], "repeated", "of step 1 of worker-0 again"),
        (PUSHED, [*APPLIED, update("w3", "x", "w4")], "unknown_gradient", "that no worker pushed"),
        (PUSHED, [update("w0", "b", "w1"), update("w1", "c", "w2")], "lost", "step 0 of worker-0"),
        (
            [push(0, 0, "w0", "a"), push(0, 1, "w0", "c")],
            [update("w0", "c", "w1"), update("w1", "a", "w2")],
            "out_of_order",
            "update 2 of p on server-0 came from step 0 of worker-0, after a later step",
        ),
        (PUSHED, [*APPLIED[:2], update("w9", "c", "w3")], "discontinuous", "none before it"),
        (
            [*PUSHED[:2], push(1, 0, "w9", "b")],
            APPLIED,
            "unknown_weights",
            r"never had \(worker-1, step 0\)",
        ),
        # Weights from the future: those after the update itself.
        ([*PUSHED[:2], push(1, 0, "w2", "b")], APPLIED, "unknown_weights", "never had"),
    ],
)
def test_what_no_fault_explains_is_a_defect(
    pushed: list[Line], applied: list[Line], kind: str, sentence: str
) -> None:
    _, history = match_updates(pushed, applied)
    assert history.defects == {kind: 1}
    assert re.search(sentence, history.problem), history.problem


def test_the_last_step_of_a_worker_may_be_in_flight() -> None:
    _, history = match_updates(PUSHED, APPLIED[:2])
    assert history == UpdateHistory(pushed=3, applied=2, in_flight=1)
    # Only a fault explains that.
    assert history.problem == "1 gradients were pushed but never applied"


def test_what_a_missing_log_would_show_is_no_defect() -> None:
    _, history = match_updates(PUSHED[:2], APPLIED, missing=["worker-1"])
    assert (history.applied, history.defects) == (3, {})
    _, history = match_updates(PUSHED, [], missing=["server-0"])
    assert (history.in_flight, history.defects) == (2, {})


def test_updates_of_a_server_that_lost_its_weights_are_discarded() -> None:
    restarted = update("r0", "c", "r1", "server-0-restarted")
    _, history = match_updates(PUSHED, [*APPLIED[:2], restarted])
    assert (history.discarded, history.defects) == (2, {"unknown_weights": 1})
    resumed = update("w2", "c", "w3", "server-0-restarted")
    assert match_updates(PUSHED, [*APPLIED[:2], resumed])[1].discarded == 0


def test_a_line_that_was_being_written_is_ignored(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "store", "key")
    writer.start(small_run("pytorch/async/parameter_server"), {})
    folders = [
        tmp_path / name for name in ("worker-0", "worker-1-restarted", "server-0", "chief-0")
    ]
    for folder in folders:
        folder.mkdir()
    of_process = {0: PUSHED[:2], 1: PUSHED[2:], 2: APPLIED}
    for number, lines in of_process.items():
        text = "".join(json.dumps({**line, "process": None}) + "\n" for line in lines)
        file = APPLIED_FILE if number == 2 else PUSHED_FILE
        (folders[number] / file).write_text(text + '{"part": "p", "be', encoding="utf-8")
    history = collect_updates(writer, folders)
    assert history == UpdateHistory(pushed=3, applied=3)
    record = read_record(writer.finish(RunResult(status="ok", update_history=history)))
    assert record.result.update_history == history
    assert record.updates()["worker"].to_pylist() == [0, 1, 0]


@pytest.mark.parametrize("came_back", [True, False])
def test_a_worker_that_recorded_nothing_is_no_lost_host(tmp_path: Path, came_back: bool) -> None:
    writer = RecordWriter(tmp_path / "store", "key")
    writer.start(small_run("pytorch/async/parameter_server"), {})
    worker, server = tmp_path / "worker-0", tmp_path / "server-0"
    for folder in (worker, server):
        folder.mkdir()
    (server / APPLIED_FILE).write_text(json.dumps(APPLIED[0]) + "\n", encoding="utf-8")
    if came_back:
        (worker / EVENTS_FILE).touch()
    history = collect_updates(writer, [worker, server])
    assert history.defects == ({"unknown_gradient": 1} if came_back else {})
    assert history.missing_logs == (() if came_back else ("worker-0",))
