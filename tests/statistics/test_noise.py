"""Noise: both spreads are recovered, and the smallest difference is where a t test finds it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from horizont.statistics.noise import noise_of, smallest_difference

pytestmark = pytest.mark.filterwarnings("error")


def test_both_spreads_are_recovered():
    random = np.random.default_rng(1)
    processes = random.normal(0, 0.03, (400, 1)) + random.normal(0, 0.10, (400, 20))
    noise = noise_of(list(0.01 * np.exp(processes)))
    assert noise.between == pytest.approx(0.03, rel=0.15)
    assert noise.within == pytest.approx(0.10, rel=0.05)
    assert noise.run_spread(100) == pytest.approx(math.hypot(0.03, 0.01), rel=0.15)


def test_repetitions_alone_are_no_noise_between_processes():
    random = np.random.default_rng(2)
    noise = noise_of([np.exp(random.normal(0, 0.1, count)) for count in (10, 40) * 200])
    assert noise.between < 0.01


def test_equal_systems_exceed_the_smallest_difference_in_5_percent_of_cases():
    random = np.random.default_rng(3)
    blocks, spread = 8, 0.02
    log_ratios = np.diff(random.normal(0, spread, (4000, blocks, 2)), axis=-1)[..., 0]
    means, deviations = log_ratios.mean(axis=1), log_ratios.std(axis=1, ddof=1)
    # In each case the spread is known from as few blocks, as in a study.
    limits = [smallest_difference(deviation / math.sqrt(2), blocks) for deviation in deviations]
    assert np.mean(np.abs(np.expm1(np.abs(means))) > limits) == pytest.approx(0.05, abs=0.01)


def test_it_is_the_half_width_of_the_t_interval_and_needs_three_blocks():
    values = np.array([0.01, -0.02, 0.03, 0.0])
    interval = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    spread = float(values.std(ddof=1)) / math.sqrt(2)
    assert math.log1p(smallest_difference(spread, 4)) == pytest.approx(
        (interval.high - interval.low) / 2
    )
    assert math.isnan(smallest_difference(spread, 2))
