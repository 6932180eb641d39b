"""A/A comparison: verdicts on a system and itself, which should find no difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from horizont.statistics.comparison import ALPHA, MIN_BLOCKS, Verdict, verdict
from horizont.statistics.intervals import LEVEL, NO_ESTIMATE, Estimate

#: Pairs of groups that are compared.
PAIRS = 100

_SEED = 20211


@dataclass(frozen=True)
class SelfComparison:
    """Verdicts on groups of runs of one system, under two names.

    Attributes
    ----------
    false_verdicts
        Pairs of which one group was found to be faster.
    group_sizes
        Runs in a group of each system, in the order given; 0 where there are too few runs.
    share
        Of false verdicts; its interval is that of independent pairs (Clopper and Pearson).
    """

    pairs: int
    false_verdicts: int
    group_sizes: tuple[int, ...]
    share: Estimate

    @property
    def exceeds_alpha(self) -> bool:
        """Whether there are significantly more false verdicts than the tests allow.

        The share alone would not do: of six runs of a single system one study in four has more
        than five false verdicts by chance, although they are 2 to 3 % on average.
        """
        return self.share.low > ALPHA


def compare_with_itself(
    rates_of_systems: Sequence[ArrayLike],
    judge: Callable[[ArrayLike, ArrayLike], Verdict] = verdict,
    pairs: int = PAIRS,
) -> SelfComparison:
    """Draw pairs of groups of runs of the same system, and count the verdicts that they differ.

    For each pair a system is drawn, and its runs are split at random into two disjoint groups of
    equal size. The groups are paired run by run in random order, as two systems are by block. What
    differs from block to block is therefore noise here, and the groups of different pairs share
    runs: with few runs the pairs are far from independent, and the interval is too narrow.

    The rates are those of all runs of each system, NaN if a run has none; `judge` is the function
    under test. Systems with fewer runs than two groups need for a verdict are left out; without
    any other there are no pairs, and the share is NaN.
    """
    rates = [np.asarray(one, dtype=np.float64) for one in rates_of_systems]
    rates = [one[one > 0] for one in rates]  # false for NaN
    sizes = [one.size // 2 if one.size >= 2 * MIN_BLOCKS else 0 for one in rates]
    usable = [number for number, size in enumerate(sizes) if size]
    if not usable:
        return SelfComparison(0, 0, tuple(sizes), NO_ESTIMATE)
    random = np.random.default_rng(_SEED)
    false_verdicts = 0
    for _ in range(pairs):
        number = int(random.choice(usable))
        shuffled, size = random.permutation(rates[number]), sizes[number]
        outcome = judge(shuffled[:size], shuffled[size : 2 * size]).outcome
        false_verdicts += outcome in ("A faster", "B faster")
    interval = scipy.stats.binomtest(false_verdicts, pairs).proportion_ci(LEVEL, method="exact")
    share = Estimate(
        false_verdicts / pairs, float(interval.low), float(interval.high), LEVEL, pairs
    )
    return SelfComparison(pairs, false_verdicts, tuple(sizes), share)
