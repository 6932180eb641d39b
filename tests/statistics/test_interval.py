"""Intervals: their level is attainable and their coverage reaches it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horizont.statistics.intervals import (
    attainable_level,
    interval_at_level,
    mean_interval,
    median,
    median_interval,
    paired_ratio,
    proportion_bounds,
)


def test_median_ignores_nan():
    assert median([3.0, math.nan, 1.0]) == 2.0
    assert math.isnan(median([]))


@pytest.mark.parametrize(("n", "level"), [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375), (9, 0.95)])
def test_level_is_bounded_by_the_number_of_runs(n, level):
    assert attainable_level(n) == level


def test_one_run_has_no_interval():
    estimate = median_interval([7.0])
    assert estimate.value == 7.0
    assert math.isnan(estimate.low)
    assert estimate.level == 0.0


def test_intervals_are_reproducible():
    values = [1.0, 2.0, 4.0, 8.0]
    assert median_interval(values) == median_interval(values)


@pytest.mark.parametrize("n", [3, 5, 12])
def test_simulated_coverage_reaches_the_stated_level(n):
    # Skewed on purpose: times are. 300 trials put one standard error at 1.3 to 2.5 points.
    random = np.random.default_rng(n)
    trials = 300
    hits, level = 0, 0.0
    for _ in range(trials):
        estimate = median_interval(random.lognormal(mean=1.0, sigma=0.3, size=n))
        hits += estimate.low <= math.exp(1.0) <= estimate.high
        level = estimate.level
    assert hits / trials > level - 0.05
    if n <= 5:
        assert hits / trials < level + 0.08  # nor is it much too wide


def test_ratio_removes_effects_common_to_a_block():
    block = np.array([1.0, 3.0, 0.5, 2.0])
    estimate = paired_ratio(2 * block, block)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((2, 2, 2))
    assert estimate.n == 4


def test_swapping_gives_the_reciprocal_ratio():
    a, b = [1.0, 2.0, 4.0, 3.0], [2.0, 2.0, 1.0, 2.0]
    assert paired_ratio(a, b).value == pytest.approx(1 / paired_ratio(b, a).value)


def test_ratio_ignores_incomplete_blocks():
    assert paired_ratio([1.0, math.nan, 3.0], [1.0, 1.0, 1.0]).n == 2
    with pytest.raises(ValueError, match="paired"):
        paired_ratio([1.0], [1.0, 2.0])


def test_the_level_is_reached_with_any_number_of_blocks():
    values = [1.0, 1.1, 1.3, 0.9, 1.0, 1.2]
    assert interval_at_level(values) == median_interval(values)
    assert interval_at_level(values[:5]) == mean_interval(values[:5])
    assert interval_at_level(values[:5]).level == interval_at_level(values).level == 0.95
    ratio = paired_ratio(values[:3], [1.0] * 3, interval_at_level)
    assert ratio.level == 0.95
    assert ratio.low < paired_ratio(values[:3], [1.0] * 3).low


def test_bounds_of_a_proportion_are_one_sided():
    bounds = proportion_bounds(5, 5)
    assert (bounds.low, bounds.high) == pytest.approx((0.05 ** (1 / 5), 1.0))
    assert proportion_bounds(4, 4).low < 0.5 < bounds.low
    assert proportion_bounds(0, 5).high == pytest.approx(1 - bounds.low)
