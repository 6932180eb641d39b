"""The sampler: cost and lateness against others, training throughput with and without it."""

from __future__ import annotations

from bench import sampler_cost, sampler_training


def run() -> None:
    """Print cost, lateness and throughput."""
    sampler_cost.run()
    sampler_training.run()
