"""Chapters 8 and 11: what delays, stragglers and shares of a batch do, as far as it is a number."""

from __future__ import annotations

import numpy as np
import pytest

from horizont.frameworks.calculus.base import Late
from horizont.theory import staleness, stragglers, tutorial
from horizont.theory.descent import Rule, descend
from horizont.theory.formula import read_formula


@pytest.mark.parametrize("delay", [0, 1, 2, 5, 16])
def test_the_limit_of_a_delay_is_where_a_root_leaves_the_circle(delay: int) -> None:
    limit = staleness.stability_limit(delay)
    assert staleness.found_limit(delay) == pytest.approx(limit, abs=1e-9)
    steps = 400 * (delay + 1)
    near, beyond = (
        np.abs(staleness.delayed_descent(limit * factor, delay, steps)) for factor in (0.98, 1.02)
    )
    assert near[-40:].max() < 0.5
    assert beyond[-40:].max() > 2


def test_limits_are_those_of_the_text() -> None:
    assert staleness.stability_limit(0) == pytest.approx(2)
    assert staleness.stability_limit(1) == pytest.approx(1)
    assert staleness.stability_limit(2) == pytest.approx(0.618, abs=1e-3)


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_no_product_is_faster_than_the_best(delay: int) -> None:
    product, left = staleness.best_product(delay)
    assert staleness.slowest_root(product, delay) == pytest.approx(left, abs=1e-6)
    for other in np.linspace(0.01, staleness.stability_limit(delay), 50):
        assert staleness.slowest_root(float(other), delay) > left - 1e-6


def test_a_rule_with_a_delay_is_the_recurrence() -> None:
    given = {"x": np.array(1.0)}
    rule = Rule(0.2, delay=3)
    way = descend(read_formula(staleness.PARABOLA), given, ["x"], rule, 30)["x"]
    assert way == pytest.approx(staleness.delayed_descent(0.2, 3, 30))
    late = Late(2)
    assert [late(number) for number in range(5)] == [0, 0, 0, 1, 2]


def test_stale_gradients_cost_a_network_its_progress() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(20, 32, 6))
    labels = (x @ random.normal(size=(6, 3))).argmax(axis=-1)
    ends = [staleness.trained_late(x, labels, d, 0.4, 80, hidden=8)[-10:].mean() for d in (0, 16)]
    assert ends[0] < 0.6 < ends[1]


def test_the_slowest_of_equals_takes_longer_the_more_they_are() -> None:
    counts = np.array([1, 2, 4, 16])
    expected = stragglers.slowest_expected(counts, 1.0, 0.3)
    assert expected[:2] == pytest.approx([1.3, 1.45])
    assert stragglers.slowest_drawn(counts, 1.0, 0.3) == pytest.approx(expected, rel=0.01)
    assert stragglers.steps_per_second(np.array([1, 1, 1, 4]), together=True) == 1
    assert stragglers.steps_per_second(np.array([1, 1, 1, 4]), together=False) == 3.25


@pytest.mark.parametrize("times_s", [[1.0, 1.0], [1.0, 1.0, 1.0, 4.0], [1.0, 2.0, 7.0]])
def test_mean_staleness_is_the_number_of_the_others(times_s: list[float]) -> None:
    updates = stragglers.apart(np.array(times_s), 1500, spread=0.1)
    assert np.mean([u.staleness for u in updates]) == pytest.approx(len(times_s) - 1, rel=0.01)
    for rank, expected in enumerate(stragglers.expected_staleness(np.array(times_s))):
        own = [u.staleness for u in updates if u.worker == rank]
        assert np.mean(own) == pytest.approx(expected, rel=0.05)


def test_together_nothing_is_stale_and_all_wait() -> None:
    steps = stragglers.together(np.array([1.0, 4.0]), 8.0)
    assert [step.start_s for step in steps] == [0, 0, 4, 4]
    assert not any(step.staleness for step in steps)


def test_equal_shares_train_as_one_process() -> None:
    alone = tutorial.trained(1)
    assert alone.distance(tutorial.trained(4)) < 1e-14
    assert alone.distance(tutorial.trained(3)) > 1e-4  # 32 examples have no three equal shares
