"""Numbers with their uncertainty; arrays in, numbers out."""

from horizont.statistics.comparison import (
    ALPHA,
    MARGIN,
    SPREAD_WARNING,
    Outcome,
    Verdict,
    additional_blocks,
    difference_p,
    drift,
    equivalence_p,
    minimum_detectable_ratio,
    spread,
    verdict,
)
from horizont.statistics.intervals import (
    Estimate,
    attainable_level,
    log_ratios,
    mean_interval,
    median,
    median_interval,
    median_intervals,
    paired_ratio,
)

__all__ = [
    "ALPHA",
    "MARGIN",
    "SPREAD_WARNING",
    "Estimate",
    "Outcome",
    "Verdict",
    "attainable_level",
    "minimum_detectable_ratio",
    "difference_p",
    "drift",
    "equivalence_p",
    "additional_blocks",
    "log_ratios",
    "mean_interval",
    "median",
    "median_interval",
    "median_intervals",
    "paired_ratio",
    "spread",
    "verdict",
]
