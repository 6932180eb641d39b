"""The networks, described once, apart from every framework."""

from horizont.networks.catalogue import NETWORKS, build_network
from horizont.networks.layers import (
    Activation,
    Conv,
    Dense,
    Flatten,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import Network
from horizont.networks.weights import initial_weights, parameter_count, weight_shapes

__all__ = [
    "NETWORKS",
    "Activation",
    "Conv",
    "Dense",
    "Flatten",
    "Layer",
    "MaxPool",
    "Network",
    "Shape",
    "build_network",
    "initial_weights",
    "parameter_count",
    "weight_shapes",
]
