"""Weights by canonical name and layout, and their initial values from NumPy and a seed."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.networks.layers import Shape
from horizont.networks.network import Network

Weights = dict[str, NDArray[Any]]


def weight_shapes(network: Network) -> dict[str, Shape]:
    """Tell the shape of each weight, in the order of the layers."""
    return {
        f"{place.layer.name}.{short}": shape
        for place in network.layer_contexts
        for short, shape in place.layer.weight_shapes(place.shape).items()
    }


def statistic_shapes(network: Network) -> dict[str, Shape]:
    """Tell the shape of each tracked statistic, in the order of the layers."""
    return {
        f"{place.layer.name}.{short}": shape
        for place in network.layer_contexts
        for short, shape in place.layer.statistic_shapes(place.shape).items()
    }


def parameter_count(network: Network) -> int:
    """Count the trainable numbers of a network."""
    return sum(math.prod(shape) for shape in weight_shapes(network).values())


def initial_weights(network: Network, seed: int) -> Weights:
    """Draw the initial weights: Glorot uniform matrices and kernels, zero biases, unit scales.

    A network with an initial limit has all its weights drawn uniformly within that.

    Each weight has a random stream of its own, named by the weight, so that a change of one
    layer leaves the others as they were.

    Returns
    -------
    dict
        float64 arrays; whoever trains in float32 rounds them.

    References
    ----------
    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", AISTATS 2010, equation 16.
    """
    limit = network.initial_limit
    return {
        name: _draw_initial_weight(name, shape, seed, limit)
        for name, shape in weight_shapes(network).items()
    }


def initial_statistics(network: Network) -> Weights:
    """Tell what the tracked statistics start from: mean zero, variance one; float64."""
    return {
        name: np.ones(shape) if name.endswith(".variance") else np.zeros(shape)
        for name, shape in statistic_shapes(network).items()
    }


def _draw_initial_weight(name: str, shape: Shape, seed: int, limit: float | None) -> NDArray[Any]:
    if limit is None:
        if name.endswith(".bias"):
            return np.zeros(shape)
        if len(shape) == 1:
            return np.ones(shape)
        field = math.prod(shape[2:])
        limit = math.sqrt(6.0 / (field * (shape[0] + shape[1])))
    return np.random.default_rng([seed, zlib.crc32(name.encode())]).uniform(-limit, limit, shape)


def reorder_gates(value: NDArray[Any], current_order: str, target_order: str) -> NDArray[Any]:
    """Put the gates of a weight into another order.

    Parameters
    ----------
    value
        (gates * units, ...).
    given, wanted
        The letters of the gates, see :data:`horizont.networks.GATES`, in the order that the
        rows have and in the order that they shall have.
    """
    blocks = np.split(value, len(current_order))
    return np.concatenate([blocks[current_order.index(gate)] for gate in target_order])
