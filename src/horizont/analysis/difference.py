"""The difference between two systems and its parts, and which of them stands out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from horizont.stats import mean_interval

#: A cause stands out if it makes this much of all that its siblings add and take away.
STANDS_OUT = 0.5

#: With fewer blocks no difference is certain.
FEWEST = 3


@dataclass(frozen=True)
class Difference:
    """By how much longer a part of a step takes in B than in A.

    Attributes
    ----------
    level
        ``step``, ``kind``, ``phase``, ``class`` or ``operator``.
    within
        The part that this one is a part of.
    a_s, b_s
        Mean seconds of a worker's step; NaN where a system has no such part.
    difference_s
        b_s - a_s. The differences of all parts within one add up to its own.
    low_s, high_s
        The interval of the difference over the blocks; NaN if it rests on fewer than two.
    records
        What the numbers rest on, where it is not the runs of the pair: records of profiles.
    """

    level: str
    within: str
    part: str
    a_s: float
    b_s: float
    difference_s: float
    low_s: float = math.nan
    high_s: float = math.nan
    blocks: int = 0
    records: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.blocks >= FEWEST and (self.low_s > 0 or self.high_s < 0)


def over_blocks(level: str, within: str, part: str, a_s: ArrayLike, b_s: ArrayLike) -> Difference:
    """Compare a part block by block.

    Parameters
    ----------
    a_s, b_s
        Seconds, one number for each block, none of them NaN.
    """
    first, second = np.asarray(a_s, dtype=np.float64), np.asarray(b_s, dtype=np.float64)
    apart = mean_interval(second - first)
    return Difference(
        level, within, part, float(first.mean()), float(second.mean()), apart.value,
        apart.low, apart.high, apart.n,
    )  # fmt: skip


def standing_out(whole: Difference, parts: Sequence[Difference]) -> Difference | None:
    """Find the part that explains most of a difference, if one does.

    It must point the same way as the whole, be certain if it was measured in blocks, and make at
    least half of all that the parts add and take away: where much is gained here and lost there
    no single cause stands out.
    """
    sign = math.copysign(1.0, whole.difference_s)
    moved = sum(abs(part.difference_s) for part in parts)
    leading = max(parts, key=lambda part: sign * part.difference_s, default=None)
    if leading is None or sign * leading.difference_s <= 0:
        return None
    uncertain = leading.blocks > 0 and not leading.is_certain
    if uncertain or sign * leading.difference_s < STANDS_OUT * moved:
        return None
    return leading
