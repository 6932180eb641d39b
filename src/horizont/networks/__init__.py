"""The networks, described once, apart from every framework."""

from horizont.networks.catalogue import NETWORKS, build_network, network_for
from horizont.networks.gates import rearranged
from horizont.networks.layers import (
    GATES,
    LSTM,
    Activation,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Shape,
)
from horizont.networks.network import INPUT, Network, Place
from horizont.networks.outline import outline
from horizont.networks.weights import (
    initial_statistics,
    initial_weights,
    parameter_count,
    statistic_shapes,
    weight_shapes,
)

__all__ = [
    "GATES",
    "INPUT",
    "LSTM",
    "NETWORKS",
    "Activation",
    "Add",
    "BatchNorm",
    "Concat",
    "Conv",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePool",
    "Layer",
    "MaxPool",
    "Network",
    "Place",
    "Shape",
    "build_network",
    "initial_statistics",
    "initial_weights",
    "network_for",
    "outline",
    "parameter_count",
    "rearranged",
    "statistic_shapes",
    "weight_shapes",
]
