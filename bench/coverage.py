"""How often the intervals hold the truth, and how often a verdict is wrong, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from horizont.statistics.comparison import classify, difference_p, equivalence_p
from horizont.statistics.intervals import Estimate, median_intervals

GOAL = (0.93, 0.97)
TRIALS = 10_000
RESAMPLES = 999
JUDGED = 2000
MARGIN = 0.10

Random = np.random.Generator
Shape = tuple[int, int]
Noise = Callable[[Random, Shape], NDArray[np.float64]]


def _normal(random: Random, shape: Shape) -> NDArray[np.float64]:
    return random.normal(0.0, 0.03, shape)


def _skewed(random: Random, shape: Shape) -> NDArray[np.float64]:
    """Delays that are exponential: the time of each run is its best plus some."""
    return np.log1p(0.1 * random.exponential(1.0, shape))


def _heavy(random: Random, shape: Shape) -> NDArray[np.float64]:
    return 0.03 * random.standard_t(3, shape)


def _disturbed(random: Random, shape: Shape) -> NDArray[np.float64]:
    """One run in ten is held up by something else."""
    held_up = (random.random(shape) < 0.1) * random.exponential(0.3, shape)
    return random.normal(0.0, 0.02, shape) + held_up


#: The noise of a run's rate, as the logarithm of a factor.
WORLDS: Mapping[str, Noise] = {
    "normal": _normal,
    "skewed": _skewed,
    "heavy-tailed": _heavy,
    "disturbed": _disturbed,
}


def log_ratios(noise: Noise, blocks: int, trials: int, seed: int = 1) -> NDArray[np.float64]:
    """Draw the logarithms of the ratios of two systems that are equally fast: a row a study.

    What both members of a block have in common leaves their ratio alone and is left out.
    """
    random = np.random.default_rng(seed)
    return noise(random, (trials, blocks)) - noise(random, (trials, blocks))


def covered(noise: Noise, blocks: int, trials: int, resamples: int) -> float:
    """Tell the share of studies whose 95 % interval holds the true ratio."""
    low, high = median_intervals(log_ratios(noise, blocks, trials), resamples=resamples)
    return float(np.mean((low <= 0.0) & (high >= 0.0)))


def wrong(noise: Noise, blocks: int, apart: float) -> dict[str, float]:
    """Tell how often each verdict is given on systems that are so far apart, as a logarithm."""
    logs = log_ratios(noise, blocks, JUDGED, seed=2) + apart
    low, high = median_intervals(logs, resamples=RESAMPLES)
    ratios = np.exp(np.stack([np.median(logs, axis=1), low, high], axis=1))
    given = [
        classify(Estimate(*ends, 0.95, blocks), difference_p(row), equivalence_p(row), MARGIN)
        for row, ends in zip(logs, ratios.tolist(), strict=True)
    ]
    return {outcome: given.count(outcome) / JUDGED for outcome in sorted(set(given))}


def run() -> None:
    """Print the coverage for 3, 5 and 10 blocks, and the verdicts where they must not be given."""
    for name, noise in WORLDS.items():
        shares = {n: covered(noise, n, TRIALS, RESAMPLES) for n in (3, 5, 10)}
        inside = GOAL[0] < shares[10] < GOAL[1]
        told = ", ".join(f"{n} blocks {share:.1%}" for n, share in shares.items())
        print(f"  {name:<13} {told} (goal at 10: {GOAL[0]:.0%} to {GOAL[1]:.0%}) "
              f"{'ok' if inside else 'OUTSIDE'}")  # fmt: skip
    for name, noise in WORLDS.items():
        for blocks in (3, 10):
            for apart, said in ((0.0, "no difference"), (np.log(1.1), "a difference of 10 %")):
                given = wrong(noise, blocks, apart)
                told = ", ".join(f"{outcome} {share:.1%}" for outcome, share in given.items())
                print(f"  {name:<13} {blocks:>2} blocks, {said:<20} {told}")
