"""Benchmarks, as ratios within one run on a quiet machine; no test depends on them."""
