"""A training step of our ResNets against the framework's own ResNets: same shapes, one thread.

Keras and Gluon give some of their convolutions a bias; otherwise they are the same networks.
"""

from __future__ import annotations

from bench.loops import compare

GOAL = 1 / 1.02  # at most 1.02 times their time

CASES = [
    ("pytorch", "resnet18"),
    ("pytorch", "resnet50"),
    ("mxnet", "resnet18"),
    ("mxnet", "resnet50"),
    ("tensorflow", "resnet50"),
]


def run() -> None:
    """Print a row for each case."""
    for framework, network in CASES:
        compare(framework, network, GOAL)
