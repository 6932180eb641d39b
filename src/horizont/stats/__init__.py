"""Numbers with their uncertainty; arrays in, numbers out."""

from horizont.stats.interval import Estimate, attainable_level, median, median_interval
from horizont.stats.ratio import paired_ratio

__all__ = ["Estimate", "attainable_level", "median", "median_interval", "paired_ratio"]
