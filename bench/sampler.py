"""The sampler: cost and punctuality against others, training throughput with it and without."""

from __future__ import annotations

from bench import sampler_cost, sampler_training


def run() -> None:
    """Print all numbers of the sampler."""
    sampler_cost.run()
    sampler_training.run()
