"""Benchmarks: ratios within one run, on a quiet machine. They decide no test."""
