"""Coverage of the intervals and rates of wrong verdicts, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.analysis.capacity_model import Arrangement, Demands, throughput
from horizont.analysis.extrapolation import compare
from horizont.statistics.comparison import classify, difference_p, equivalence_p
from horizont.statistics.intervals import Estimate, median_intervals

GOAL = (0.93, 0.97)
TRIALS = 10_000
RESAMPLES = 999
VERDICT_TRIALS = 2000
MARGIN = 0.10

#: Times of a step, in seconds: with ten workers the server is nearly idle, or busy.
CURVES = (Demands(0.4, 0.0148), Demands(1.34, 0.164), Demands(0.19, 0.064))
MODEL_TRIALS = 100

Random = np.random.Generator
Shape = tuple[int, int]
Noise = Callable[[Random, Shape], NDArray[np.float64]]


def _normal(random: Random, shape: Shape) -> NDArray[np.float64]:
    return random.normal(0.0, 0.03, shape)


def _skewed(random: Random, shape: Shape) -> NDArray[np.float64]:
    """Draw exponential delays: the time of a run is the minimum plus a delay."""
    delays: NDArray[np.float64] = np.log1p(0.1 * random.exponential(1.0, shape))
    return delays


def _heavy(random: Random, shape: Shape) -> NDArray[np.float64]:
    return 0.03 * random.standard_t(3, shape)


def _disturbed(random: Random, shape: Shape) -> NDArray[np.float64]:
    """Draw delays of which one in ten is a disturbance."""
    disturbance = (random.random(shape) < 0.1) * random.exponential(0.3, shape)
    return random.normal(0.0, 0.02, shape) + disturbance


#: Noise of the throughput of a run, as the logarithm of a factor.
NOISES: Mapping[str, Noise] = {
    "normal": _normal,
    "skewed": _skewed,
    "heavy-tailed": _heavy,
    "disturbed": _disturbed,
}


def log_ratios(noise: Noise, blocks: int, trials: int, seed: int = 1) -> NDArray[np.float64]:
    """Draw the logarithms of the ratios of two equally fast systems: a row per study.

    Variation that both systems of a block share cancels in their ratio and is not simulated.
    """
    random = np.random.default_rng(seed)
    return np.subtract(noise(random, (trials, blocks)), noise(random, (trials, blocks)))


def coverage(noise: Noise, blocks: int, trials: int, resamples: int) -> float:
    """Return the fraction of studies whose 95 % interval covers the true ratio."""
    low, high = median_intervals(log_ratios(noise, blocks, trials), resamples=resamples)
    return float(np.mean((low <= 0.0) & (high >= 0.0)))


def outcome_fractions(noise: Noise, blocks: int, log_ratio: float) -> dict[str, float]:
    """Return the rate of each verdict on systems that differ by `log_ratio`, as a logarithm."""
    logs = log_ratios(noise, blocks, VERDICT_TRIALS, seed=2) + log_ratio
    low, high = median_intervals(logs, resamples=RESAMPLES)
    ratios = np.exp(np.stack([np.median(logs, axis=1), low, high], axis=1))
    outcomes = [
        classify(
            Estimate(ends[0], ends[1], ends[2], 0.95, blocks),
            difference_p(row),
            equivalence_p(row),
            MARGIN,
        )
        for row, ends in zip(logs, ratios.tolist(), strict=True)
    ]
    return {outcome: outcomes.count(outcome) / VERDICT_TRIALS for outcome in sorted(set(outcomes))}


def model_coverage(demands: Demands, blocks: int, trials: int, seed: int = 3) -> float:
    """Return how often the 90 % interval of the queueing model has what is measured beyond its fit.

    The curves follow the model, with noise of 6 % in each run and 3 % in the time of an update.
    """
    random, workers = np.random.default_rng(seed), (1, 2, 5, 10)
    rates = throughput(demands, Arrangement(), max(workers))
    inside = 0
    for _ in range(trials):
        rows = [
            (
                number,
                block,
                rates[number - 1] * np.exp(random.normal(0.0, 0.06)),
                demands.update_s * np.exp(random.normal(0.0, 0.03)),
            )
            for number in workers
            for block in range(blocks)
        ]
        points = pd.DataFrame(rows, columns=["workers", "block", "updates_per_s", "update_s"])
        _, compared = compare(points, Arrangement())
        inside += compared.loc[compared["held_out"], "inside"].item()
    return inside / trials


def run() -> None:
    """Print the coverage of all intervals, and the rates of wrong verdicts."""
    for name, noise in NOISES.items():
        by_blocks = {n: coverage(noise, n, TRIALS, RESAMPLES) for n in (3, 5, 10)}
        inside = GOAL[0] < by_blocks[10] < GOAL[1]
        row_text = ", ".join(f"{n} blocks {fraction:.1%}" for n, fraction in by_blocks.items())
        print(f"  {name:<13} {row_text} (goal at 10: {GOAL[0]:.0%} to {GOAL[1]:.0%}) "
              f"{'ok' if inside else 'OUTSIDE'}")  # fmt: skip
    for name, noise in NOISES.items():
        for blocks in (3, 10):
            for log_ratio, description in (
                (0.0, "no difference"),
                (np.log(1.1), "a difference of 10 %"),
            ):
                fractions = outcome_fractions(noise, blocks, log_ratio)
                row_text = ", ".join(
                    f"{outcome} {fraction:.1%}" for outcome, fraction in fractions.items()
                )
                print(f"  {name:<13} {blocks:>2} blocks, {description:<20} {row_text}")
    for blocks in (4, 6, 8):
        fractions = [model_coverage(demands, blocks, MODEL_TRIALS) for demands in CURVES]
        row_text = ", ".join(f"{fraction:.0%}" for fraction in fractions)
        print(f"  queueing model, {blocks} blocks, server idle to busy: {row_text} (goal: 90%)")
