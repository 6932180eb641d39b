import subprocess
import sys
import time

import pytest

from horizont.monitoring.sampler import Schedule


def test_lateness_does_not_delay_later_deadlines():
    schedule = Schedule(100.0, 0.25)
    now_s, deadlines = 100.0, []
    for _ in range(50):
        _, due_s, _ = schedule.next(now_s)
        deadlines.append(due_s)
        now_s = max(now_s, due_s) + 0.2  # each sample takes most of the interval
    assert deadlines == [100.0 + 0.25 * tick for tick in range(50)]


def test_ticks_that_have_passed_are_skipped_and_counted():
    schedule = Schedule(0.0, 1.0)
    assert schedule.next(0.0) == (0, 0.0, 0)
    assert schedule.next(5.5) == (5, 5.0, 4)  # 1 to 4 have passed, 5 is half a second late
    assert schedule.next(5.6) == (6, 6.0, 0)


def test_jitter_is_bounded_and_does_not_accumulate():
    schedule = Schedule(0.0, 1.0, jitter=0.2, seed=1)
    deadlines = [schedule.next(0.0) for _ in range(1000)]
    displacements = [due_s - tick for tick, due_s, _ in deadlines]
    assert [tick for tick, _, _ in deadlines] == list(range(1000))
    assert max(map(abs, displacements)) <= 0.2 + 1e-9
    assert max(displacements) > 0.15
    assert min(displacements) < -0.15


def test_a_tick_that_was_early_by_jitter_is_not_repeated():
    schedule = Schedule(0.0, 1.0, jitter=0.4, seed=3)
    ticks, now_s = [], 0.0
    for _ in range(200):
        tick, due_s, _ = schedule.next(now_s)
        now_s = max(now_s, due_s)
        ticks.append(tick)
    assert ticks == list(range(200))


@pytest.mark.parametrize("seed", [1, 2])
def test_jitter_is_reproducible(seed):
    first, second = (Schedule(0.0, 1.0, 0.1, seed) for _ in range(2))
    assert [first.next(0.0) for _ in range(5)] == [second.next(0.0) for _ in range(5)]


def test_ticks_continue_after_the_clock_was_set_back():
    schedule = Schedule(100.0, 0.5)
    assert [schedule.next(100.0 + n / 2)[0] for n in range(4)] == [0, 1, 2, 3]
    schedule.restart(40.0)
    assert schedule.next(40.0) == (3, 40.0, 0)
    assert schedule.next(40.0) == (4, 40.5, 0)


def test_the_clock_cannot_be_set_back():
    clock = time.get_clock_info("monotonic")
    assert clock.monotonic
    assert not clock.adjustable
    assert "CLOCK_MONOTONIC" in clock.implementation


def test_all_processes_read_the_same_clock():
    before_s = time.monotonic()
    code = "import time; print(repr(time.monotonic()))"
    other_s = float(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert before_s < other_s < time.monotonic()
