import math

import pyarrow as pa
import pytest

from horizont.launchers.collect import split_waiting_from_transfer, wall_clock_step_s
from horizont.training.step_log import BACKWARD, COMMUNICATION, StepLog


def step_table(worker, *steps):
    """Log steps, each (start, end of the backward pass, end); no exchange without the second."""
    log = StepLog(len(steps), worker)
    for start_s, ready_s, end_s in steps:
        log.begin(start_s)
        if ready_s is not None:
            log.mark(BACKWARD, ready_s)
            log.mark(COMMUNICATION, end_s)
        log.end(1, at_s=end_s)
    return log.table()


def split(*logs):
    rows = split_waiting_from_transfer(pa.concat_tables(logs)).to_pylist()
    return {
        (row["worker"], row["step"]): (row["waiting_s"], row["communication_s"]) for row in rows
    }


def test_all_workers_wait_for_the_slowest_of_the_same_step():
    quick = step_table(0, (0.0, 1.0, 5.0), (5.0, 8.0, 9.5))
    slow = step_table(1, (0.0, 4.0, 5.5), (5.5, 7.0, 9.0))
    assert split(quick, slow) == {
        (0, 0): (3.0, 1.0),
        (1, 0): (0.0, 1.5),
        (0, 1): (0.0, 1.5),
        (1, 1): (1.0, 1.0),
    }


def test_no_worker_waits_longer_than_the_exchange_takes():
    skipping = step_table(0, (0.0, 1.0, 1.0))
    late = step_table(1, (0.0, 4.0, 4.0))
    assert split(skipping, late) == {(0, 0): (0.0, 0.0), (1, 0): (0.0, 0.0)}


def test_steps_without_communication_have_no_waiting():
    first = step_table(0, (0.0, None, 1.0), (1.0, 2.0, 3.0), (3.0, 4.0, 6.0))
    other = step_table(1, (0.0, None, 1.0), (1.0, 2.5, 3.0))  # ended before its third step
    waiting = split(first, other)
    assert all(math.isnan(value) for value in waiting[0, 0] + waiting[1, 0])
    assert waiting[0, 1] == (0.5, 0.5)
    assert waiting[0, 2] == (0.0, 2.0)


def test_a_table_of_no_steps_stays_empty():
    table = split_waiting_from_transfer(step_table(0))
    assert table.num_rows == 0
    assert table.column_names == step_table(0).column_names


def logged(*times):
    """Return events, each (monotonic clock, wall clock)."""
    return [{"time_s": time_s, "time_unix_s": unix_s} for time_s, unix_s in times]


def test_a_wall_clock_that_was_set_is_seen_in_either_direction():
    assert wall_clock_step_s(logged((1.0, 101.0), (2.0, 102.0), (3.0, 105.5))) == pytest.approx(2.5)
    assert wall_clock_step_s(logged((1.0, 101.0), (2.0, 99.0), (3.0, 103.0))) == pytest.approx(3.0)


def test_clocks_that_are_read_one_after_the_other_have_no_step():
    assert wall_clock_step_s(logged((1.0, 101.0), (2.0, 101.95), (900.0, 1000.0))) == 0.0
