"""A training step of our networks against each framework's own: same shapes, one thread.

The framework's own is a network of its package where that has the same one (Keras' ResNet-50,
Gluon's ResNets, each framework's LSTM), else one of its plain layers. Some convolutions of Keras
and Gluon have a bias; otherwise the networks are the same. Gluon's AlexNet, and the Inception
networks of Keras and Gluon, differ from ours: they are for larger images.
"""

from __future__ import annotations

from bench.loops import compare

GOAL = 1 / 1.02  # at most 1.02 times their time

CASES = [
    *((framework, "lenet") for framework in ("pytorch", "tensorflow", "mxnet", "jax")),
    *((framework, "alexnet-small") for framework in ("pytorch", "tensorflow", "mxnet", "jax")),
    ("pytorch", "resnet18"),
    ("pytorch", "resnet50"),
    ("mxnet", "resnet18"),
    ("mxnet", "resnet50"),
    ("tensorflow", "resnet50"),
    ("pytorch", "inception"),
    *((framework, "lstm") for framework in ("pytorch", "tensorflow", "mxnet", "jax")),
]


def run() -> None:
    """Print a row for each case."""
    for framework, network in CASES:
        compare(framework, network, GOAL)
