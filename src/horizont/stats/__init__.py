"""Numbers with their uncertainty; arrays in, numbers out."""

from horizont.stats.equality import MARGIN, difference_p, equivalence_p
from horizont.stats.interval import (
    Estimate,
    attainable_level,
    mean_interval,
    median,
    median_interval,
    median_intervals,
)
from horizont.stats.power import ALPHA, detectable_ratio, further_blocks
from horizont.stats.ratio import log_ratios, paired_ratio
from horizont.stats.stability import WIDE, drift, spread
from horizont.stats.verdict import Outcome, Verdict, verdict

__all__ = [
    "ALPHA",
    "MARGIN",
    "WIDE",
    "Estimate",
    "Outcome",
    "Verdict",
    "attainable_level",
    "detectable_ratio",
    "difference_p",
    "drift",
    "equivalence_p",
    "further_blocks",
    "log_ratios",
    "mean_interval",
    "median",
    "median_interval",
    "median_intervals",
    "paired_ratio",
    "spread",
    "verdict",
]
