"""A/A comparison: few false verdicts by the verdict in use, many by a defective one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from bench.coverage import NOISES

from horizont.statistics.comparison import ALPHA, verdict
from horizont.statistics.self_comparison import compare_with_itself

pytestmark = pytest.mark.filterwarnings("error")


def runs(systems, blocks, noise="normal"):
    """Draw the rates of some systems, of different speeds, in some blocks."""
    logs = NOISES[noise](np.random.default_rng(4), (systems, blocks))
    return [100 * (number + 1) * np.exp(row) for number, row in enumerate(logs)]


def by_interval_only(a, b):
    """Judge by the interval alone, whose level is 75 % with three blocks."""
    judged = verdict(a, b)
    outcome = "A faster" if judged.ratio.low > 1 else "B faster"
    excludes_1 = judged.ratio.low > 1 or judged.ratio.high < 1
    return replace(judged, outcome=outcome) if excludes_1 else judged


def by_order(a, b):
    """Judge without the pairs of blocks: the larger sum is faster."""
    return replace(verdict(a, b), outcome="A faster" if np.sum(a) > np.sum(b) else "B faster")


@pytest.mark.parametrize("noise", ["normal", "disturbed"])
def test_a_system_seldom_differs_from_itself(noise):
    found = compare_with_itself(runs(20, 6, noise))
    assert found.pairs == 100
    assert not found.exceeds_alpha
    assert found.share.value == found.false_verdicts / 100 <= ALPHA
    assert found.share.low <= found.share.value <= found.share.high
    assert found == compare_with_itself(runs(20, 6, noise))


@pytest.mark.parametrize("judge", [by_interval_only, by_order])
def test_a_defective_verdict_is_found(judge):
    found = compare_with_itself(runs(20, 6), judge)
    assert found.exceeds_alpha
    assert found.share.value > ALPHA


def test_groups_are_disjoint_and_of_one_system():
    pairs = []

    def record_groups(a, b):
        pairs.append((set(a), set(b)))
        return verdict([1, 1, 1], [1, 1, 1])

    rates = [np.arange(1, 8), np.arange(101, 107), np.array([201, 202, math.nan, 203, 204, 205])]
    found = compare_with_itself(rates, record_groups, pairs=30)
    assert found.group_sizes == (3, 3, 0)
    assert {system for a, b in pairs for system in {int(rate) // 100 for rate in a | b}} == {0, 1}
    for a, b in pairs:
        assert len(a) == len(b) == 3
        assert not a & b
        assert len({int(rate) // 100 for rate in a | b}) == 1


def test_without_enough_runs_there_is_no_pair():
    found = compare_with_itself([np.ones(5), np.array([1, 1, 1, 1, 1, math.nan])])
    assert (found.pairs, found.false_verdicts) == (0, 0)
    assert math.isnan(found.share.value)
    assert not found.exceeds_alpha
