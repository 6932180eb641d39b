"""The ratio of two quantities that were measured side by side, block by block."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from horizont.stats.interval import LEVEL, Estimate, median_interval


def paired_ratio(numerator: ArrayLike, denominator: ArrayLike, level: float = LEVEL) -> Estimate:
    """Estimate by which factor one quantity exceeds another, pairing them by block.

    What slows a whole block (a warm machine, a busy neighbour) slows both members of a pair and
    leaves their ratio alone. The ratio is taken inside each block and the median of the
    logarithms over the blocks, so that a factor of two up and a factor of two down weigh the
    same and swapping the two gives exactly the reciprocal.

    Parameters
    ----------
    numerator, denominator
        Positive numbers in the same unit, in the same order of blocks; NaN where a run of the
        block gave none, which leaves the block out.

    Raises
    ------
    ValueError
        If the two differ in length.
    """
    logs = median_interval(log_ratios(numerator, denominator), level)
    return Estimate(
        math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), logs.level, logs.n
    )


def log_ratios(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """Take the natural logarithm of the ratio inside each block that has both members.

    Raises
    ------
    ValueError
        If the two differ in length.
    """
    above = np.asarray(numerator, dtype=np.float64)
    below = np.asarray(denominator, dtype=np.float64)
    if above.shape != below.shape:
        raise ValueError(f"{above.shape} and {below.shape} cannot be paired")
    usable = (above > 0) & (below > 0)  # false for NaN
    found: NDArray[np.float64] = np.log(above[usable] / below[usable])
    return found
