"""The pictures of the theory notebooks: numbers in, pictures out."""

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
