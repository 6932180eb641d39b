"""The pictures of the theory notebooks: numbers in, pictures out."""

from horizont.report.lessons import (
    blocks,
    convolution,
    descent,
    graphs,
    metrics,
    neuron,
    parallelism,
    recurrence,
    ring,
    staleness,
    stragglers,
    tutorial,
)

__all__ = [
    "blocks",
    "convolution",
    "descent",
    "graphs",
    "metrics",
    "neuron",
    "parallelism",
    "recurrence",
    "ring",
    "staleness",
    "stragglers",
    "tutorial",
]
