"""Verdicts: right where the answer is known, not settled where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.coverage import NOISES, coverage

from horizont.statistics.comparison import (
    additional_blocks,
    drift,
    minimum_detectable_ratio,
    spread,
    verdict,
)
from horizont.statistics.intervals import mean_interval, paired_ratio

pytestmark = pytest.mark.filterwarnings("error")

BLOCKS = np.array([100.0, 140.0, 90.0, 120.0, 110.0, 95.0])
NOISE = np.array([1.01, 0.99, 1.02, 0.98, 1.0, 1.005])


@pytest.mark.parametrize("noise", ["normal", "disturbed"])
def test_a_95_percent_interval_of_ten_blocks_covers_the_truth_in_95_percent(noise):
    # 2,000 trials put one standard error at half a point; the seed makes it the same each time.
    assert 0.93 < coverage(NOISES[noise], blocks=10, trials=2000, resamples=999) < 0.97


@pytest.mark.parametrize(
    ("a", "outcome"), [(1.5, "A faster"), (0.7, "B faster"), (1.0, "equal"), (1.04, "equal")]
)
@pytest.mark.parametrize("blocks", [3, 6])
def test_clear_differences_and_equality_are_found(a, outcome, blocks):
    rates = BLOCKS[:blocks]
    assert verdict(a * rates * NOISE[:blocks], rates).outcome == outcome


def test_the_margin_is_a_parameter():
    rates = 1.04 * BLOCKS * NOISE
    assert verdict(rates, BLOCKS, margin=0.01).outcome == "A faster"
    assert verdict(rates, BLOCKS, margin=0.10).outcome == "equal"


# The last interval lies within the margin, but three blocks are too few for equivalence.
@pytest.mark.parametrize("noise", [[1.0, 1.2, 0.9], [0.7, 1.0, 1.4], [0.932, 1.0, 1.073]])
def test_no_significant_difference_is_not_equality(noise):
    result = verdict(BLOCKS[:3] * noise, BLOCKS[:3])
    assert result.outcome == "not settled"
    assert result.minimum_detectable_ratio > 1.2
    assert result.additional_blocks is not None
    assert result.additional_blocks >= 2


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_fewer_than_three_blocks_have_no_verdict(blocks):
    result = verdict(3 * BLOCKS[:blocks], BLOCKS[:blocks])
    assert result.outcome == "not settled"
    assert math.isnan(result.minimum_detectable_ratio)


def test_incomplete_blocks_are_ignored():
    rates = np.array([math.nan, 140.0, 90.0, 120.0])
    assert verdict(rates, BLOCKS[:4]).ratio.n == 3
    assert verdict(rates[:3], BLOCKS[:3]).outcome == "not settled"


def test_swapping_the_systems_swaps_the_verdict():
    one, other = verdict(1.3 * BLOCKS * NOISE, BLOCKS), verdict(BLOCKS, 1.3 * BLOCKS * NOISE)
    assert (one.outcome, other.outcome) == ("A faster", "B faster")
    assert one.ratio.low == pytest.approx(1 / other.ratio.high, rel=0.01)
    assert one.minimum_detectable_ratio == pytest.approx(other.minimum_detectable_ratio)


def test_identical_blocks_need_no_bootstrap():
    same, double = verdict(BLOCKS, BLOCKS), verdict(2 * BLOCKS, BLOCKS)
    assert (same.outcome, double.outcome) == ("equal", "A faster")
    assert double.ratio.low == double.ratio.high == pytest.approx(2)


def test_one_disturbed_block_does_not_move_the_median():
    rates = 1.2 * BLOCKS * NOISE
    rates[2] *= 0.3
    assert 1.15 < paired_ratio(rates, BLOCKS).value < 1.25
    assert verdict(rates, BLOCKS).outcome == "not settled"  # the t test is not significant


def test_power_is_that_of_the_t_test():
    # Of ten pairs the paired t test finds 0.996 standard deviations in 80 % of cases.
    logs = np.tile([-1.0, 1.0], 5) * math.sqrt(0.9)
    assert np.std(logs, ddof=1) == pytest.approx(1.0)
    assert math.log(minimum_detectable_ratio(logs)) == pytest.approx(0.996, abs=0.002)
    # So four pairs with this spread need six more.
    apart = np.array([-1.0, 0.0, 0.0, 1.0]) / math.sqrt(2 / 3) + 0.998
    assert additional_blocks(apart) == 6


def test_additional_blocks_may_be_those_to_equality():
    # There is no difference: only equality can settle it.
    logs = np.array([-0.06, 0.06, -0.06, 0.06])
    assert additional_blocks(logs) in range(1, 12)


def test_spread_and_drift():
    assert spread([100.0, 100.0 * math.e**0.1]) == pytest.approx(0.1 / math.sqrt(2))
    assert math.isnan(spread([5.0]))
    down = drift([5, 1, 4, 2, 3], [10.0, 50.0, 20.0, 40.0, 30.0])
    assert down == pytest.approx((-1.0, 1 / 60))
    assert all(math.isnan(value) for value in drift([1, 2, 3], [1.0, 2.0, 3.0]))


def test_means_have_t_intervals():
    interval = mean_interval([1.0, 2.0, 3.0])
    assert (interval.low, interval.high) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert math.isnan(mean_interval([1.0]).low)
