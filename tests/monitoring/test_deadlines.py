import pytest

from horizont.monitoring.deadlines import Deadlines


def test_lateness_does_not_shift_what_follows():
    deadlines = Deadlines(100.0, 0.25)
    now = 100.0
    dues = []
    for _ in range(50):
        deadline = deadlines.next(now)
        dues.append(deadline.due_s)
        now = max(now, deadline.due_s) + 0.2  # each sample takes most of the interval
    assert dues == [100.0 + 0.25 * tick for tick in range(50)]


def test_ticks_that_are_over_are_skipped_and_counted():
    deadlines = Deadlines(0.0, 1.0)
    assert deadlines.next(0.0) == (0, 0.0, 0)
    late = deadlines.next(5.5)  # 1 to 4 are over, 5 is half a second late
    assert (late.tick, late.due_s, late.missed) == (5, 5.0, 4)
    after = deadlines.next(5.6)
    assert (after.tick, after.due_s, after.missed) == (6, 6.0, 0)


def test_jitter_is_bounded_and_does_not_add_up():
    deadlines = Deadlines(0.0, 1.0, jitter=0.2, seed=1)
    ticks = [deadlines.next(0.0) for _ in range(1000)]
    moves = [tick.due_s - tick.tick for tick in ticks]
    assert [tick.tick for tick in ticks] == list(range(1000))
    assert max(map(abs, moves)) <= 0.2 + 1e-9
    assert max(moves) > 0.15
    assert min(moves) < -0.15


def test_a_tick_that_came_early_by_jitter_is_not_taken_twice():
    deadlines = Deadlines(0.0, 1.0, jitter=0.4, seed=3)
    indices = []
    now = 0.0
    for _ in range(200):
        deadline = deadlines.next(now)
        now = max(now, deadline.due_s)
        indices.append(deadline.tick)
    assert indices == list(range(200))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_moves_follow_from_the_seed(seed):
    one, other = (Deadlines(0.0, 1.0, 0.1, seed) for _ in range(2))
    assert [one.next(0.0) for _ in range(5)] == [other.next(0.0) for _ in range(5)]
