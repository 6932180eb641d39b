import math
from types import SimpleNamespace

import numpy as np
import pytest

from horizont.training.step_log import (
    BACKWARD,
    COMMUNICATION,
    FORWARD,
    LOAD,
    PHASES,
    WAITING,
    StepLog,
)

PHASE_COLUMNS = [f"{phase}_s" for phase in PHASES]


def column(log, name):
    return log.table()[name].to_numpy()


def test_an_uninstrumented_step_has_no_phases_and_no_loss():
    log = StepLog(4, worker=3)
    log.begin()
    log.end(42)
    row = log.table().to_pylist()[0]
    assert (row["step"], row["worker"], row["examples"]) == (0, 3, 42)
    assert row["kind"] == "timed"
    assert all(math.isnan(row[name]) for name in [*PHASE_COLUMNS, "loss"])
    assert row["step_s"] > 0
    assert log.table()["load_s"].null_count == 0


def test_marked_phases_fill_the_step_and_the_others_stay_nan():
    log = StepLog(1)
    log.begin()
    for phase in (LOAD, FORWARD, BACKWARD):
        log.mark(phase)
    log.end(1, kind="instrumented")
    log.set_loss(0, 0.5)
    row = log.table().to_pylist()[0]
    marked = row["load_s"] + row["forward_s"] + row["backward_s"]
    assert 0 < marked <= row["step_s"] + 1e-9
    assert math.isnan(row["update_s"])
    assert math.isnan(row["waiting_s"])
    assert (row["loss"], row["kind"]) == (0.5, "instrumented")


def test_a_phase_may_be_marked_in_parts(monkeypatch):
    ticks = iter([10.0, 11.0, 13.0, 16.0, 25.0])
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr("horizont.training.step_log.time", clock)
    log = StepLog(1)
    log.begin()
    log.mark(WAITING)  # 1
    log.mark(COMMUNICATION)  # 2
    log.mark(WAITING)  # 3 more
    log.end(1)  # 9 of no phase
    row = log.table().to_pylist()[0]
    assert (row["waiting_s"], row["communication_s"]) == (4.0, 2.0)
    assert (row["start_s"], row["step_s"]) == (10.0, 15.0)


def test_times_can_be_given():
    log = StepLog(2)
    log.begin(5.0)
    for phase, end_s in ((LOAD, 5.0), (FORWARD, 5.5), (BACKWARD, 7.0), (COMMUNICATION, 10.0)):
        log.mark(phase, end_s)
    log.end(1, at_s=10.25)
    log.begin(10.25)
    log.end(1, at_s=11.0)
    row, unmarked = log.table().to_pylist()
    assert (row["load_s"], row["forward_s"], row["backward_s"]) == (0.0, 0.5, 1.5)
    assert (row["start_s"], row["step_s"], row["communication_s"]) == (5.0, 5.25, 3.0)
    assert row["gradients_ready_s"] == 7.0
    assert math.isnan(unmarked["gradients_ready_s"])


def test_a_phase_does_not_leak_into_the_next_step():
    log = StepLog(2)
    log.begin()
    log.mark(LOAD)
    log.end(1)
    log.begin()
    log.end(1)
    assert np.isnan(column(log, "load_s")).tolist() == [False, True]


def test_more_steps_than_expected_are_recorded():
    log = StepLog(2)
    for step in range(9):
        log.begin()
        log.mark(LOAD)
        log.end(step)
        log.set_loss(step, step / 2)
    assert column(log, "examples").tolist() == list(range(9))
    assert column(log, "loss").tolist() == [step / 2 for step in range(9)]
    assert not np.isnan(column(log, "load_s")).any()


def test_a_loss_can_be_set_later_for_an_ended_step_only():
    log = StepLog(2)
    log.begin()
    log.end(1)
    log.set_loss(0, 2.5)
    assert column(log, "loss").tolist() == [2.5]
    with pytest.raises(IndexError, match="step 1"):
        log.set_loss(1, 0.0)


def test_a_table_is_a_copy():
    log = StepLog(2)
    log.begin()
    log.end(7)
    table = log.table()
    log.set_loss(0, 1.0)
    assert math.isnan(table["loss"][0].as_py())


def test_no_step_makes_an_empty_table_with_all_columns():
    table = StepLog(3).table()
    assert table.num_rows == 0
    assert set(PHASE_COLUMNS) < set(table.column_names)
