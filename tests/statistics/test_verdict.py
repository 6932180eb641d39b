"""Verdicts: right where the answer is known, silent where it is not, and never too sure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.coverage import WORLDS, covered

from horizont import statistics
from horizont.statistics.comparison import verdict

pytestmark = pytest.mark.filterwarnings("error")

BLOCKS = np.array([100.0, 140.0, 90.0, 120.0, 110.0, 95.0])
NOISE = np.array([1.01, 0.99, 1.02, 0.98, 1.0, 1.005])


@pytest.mark.parametrize("world", ["normal", "disturbed"])
def test_a_95_percent_interval_of_ten_blocks_holds_the_truth_in_95_percent(world):
    # 2,000 trials put one standard error at half a point; the seed makes it the same each time.
    assert 0.93 < covered(WORLDS[world], blocks=10, trials=2000, resamples=999) < 0.97


@pytest.mark.parametrize(
    ("a", "outcome"), [(1.5, "A faster"), (0.7, "B faster"), (1.0, "equal"), (1.04, "equal")]
)
@pytest.mark.parametrize("blocks", [3, 6])
def test_what_is_clear_is_said(a, outcome, blocks):
    rates = BLOCKS[:blocks]
    assert verdict(a * rates * NOISE[:blocks], rates).outcome == outcome


def test_the_margin_is_set_by_whoever_asks():
    rates = 1.04 * BLOCKS * NOISE
    assert verdict(rates, BLOCKS, margin=0.01).outcome == "A faster"
    assert verdict(rates, BLOCKS, margin=0.10).outcome == "equal"


# The last lies inside the margin from end to end, and three blocks do not make that certain.
@pytest.mark.parametrize("noise", [[1.0, 1.2, 0.9], [0.7, 1.0, 1.4], [0.932, 1.0, 1.073]])
def test_not_to_find_a_difference_is_not_equality(noise):
    found = verdict(BLOCKS[:3] * noise, BLOCKS[:3])
    assert found.outcome == "not settled"
    assert found.minimum_detectable_ratio > 1.2
    assert found.additional_blocks is not None
    assert found.additional_blocks >= 2


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_fewer_than_three_blocks_settle_nothing(blocks):
    found = verdict(3 * BLOCKS[:blocks], BLOCKS[:blocks])
    assert found.outcome == "not settled"
    assert math.isnan(found.minimum_detectable_ratio)


def test_blocks_without_both_members_do_not_count():
    rates = np.array([math.nan, 140.0, 90.0, 120.0])
    assert verdict(rates, BLOCKS[:4]).ratio.n == 3
    assert verdict(rates[:3], BLOCKS[:3]).outcome == "not settled"


def test_swapping_the_systems_swaps_the_verdict():
    one, other = verdict(1.3 * BLOCKS * NOISE, BLOCKS), verdict(BLOCKS, 1.3 * BLOCKS * NOISE)
    assert (one.outcome, other.outcome) == ("A faster", "B faster")
    assert one.ratio.low == pytest.approx(1 / other.ratio.high, rel=0.01)
    assert one.equivalence_p == pytest.approx(other.equivalence_p)


def test_blocks_that_agree_to_the_last_digit_need_no_bootstrap():
    same, double = verdict(BLOCKS, BLOCKS), verdict(2 * BLOCKS, BLOCKS)
    assert (same.outcome, double.outcome) == ("equal", "A faster")
    assert double.ratio.low == double.ratio.high == pytest.approx(2)


def test_one_disturbed_block_does_not_turn_the_interval():
    rates = 1.2 * BLOCKS * NOISE
    rates[2] *= 0.3
    assert 1.15 < statistics.paired_ratio(rates, BLOCKS).value < 1.25
    assert verdict(rates, BLOCKS).outcome == "not settled"  # and the t test keeps silent


def test_power_is_that_of_the_t_test():
    # Of ten pairs the paired t test finds 0.996 standard deviations in 80 % of cases.
    logs = np.tile([-1.0, 1.0], 5) * math.sqrt(0.9)
    assert np.std(logs, ddof=1) == pytest.approx(1.0)
    assert math.log(statistics.minimum_detectable_ratio(logs)) == pytest.approx(0.996, abs=0.002)
    # So four pairs that are so far apart lack six.
    apart = np.array([-1.0, 0.0, 0.0, 1.0]) / math.sqrt(2 / 3) + 0.998
    assert statistics.additional_blocks(apart) == 6


def test_equality_may_be_nearer_than_a_difference():
    # No difference at all: only equality can settle it, and that it does.
    logs = np.array([-0.06, 0.06, -0.06, 0.06])
    assert statistics.additional_blocks(logs) in range(1, 12)


def test_spread_and_drift():
    assert statistics.spread([100.0, 100.0 * math.e**0.1]) == pytest.approx(0.1 / math.sqrt(2))
    assert math.isnan(statistics.spread([5.0]))
    down = statistics.drift([5, 1, 4, 2, 3], [10.0, 50.0, 20.0, 40.0, 30.0])
    assert down == pytest.approx((-1.0, 1 / 60))
    assert all(math.isnan(value) for value in statistics.drift([1, 2, 3], [1.0, 2.0, 3.0]))


def test_means_of_parts_have_intervals_by_t():
    found = statistics.mean_interval([1.0, 2.0, 3.0])
    assert (found.low, found.high) == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert math.isnan(statistics.mean_interval([1.0]).low)
