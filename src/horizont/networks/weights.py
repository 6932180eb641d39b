"""Canonical names and layout of the weights, and their initial values from NumPy and a seed."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.networks.layers import GATES, LSTM, Shape
from horizont.networks.network import Network

Weights = dict[str, NDArray[Any]]


def weight_shapes(network: Network) -> dict[str, Shape]:
    """Return the shape of each weight, in the order of the layers."""
    return {
        f"{context.layer.name}.{short}": shape
        for context in network.layer_contexts
        for short, shape in context.layer.weight_shapes(context.shape).items()
    }


def statistic_shapes(network: Network) -> dict[str, Shape]:
    """Return the shape of each running statistic, in the order of the layers."""
    return {
        f"{context.layer.name}.{short}": shape
        for context in network.layer_contexts
        for short, shape in context.layer.statistic_shapes(context.shape).items()
    }


def initial_weights(network: Network, seed: int, limit: float | None = None) -> Weights:
    """Draw the initial weights: Glorot uniform matrices and kernels, zero biases, unit scales.

    If the network has an initial limit, all weights are uniform within it. Each weight has a
    random stream of its own, seeded with its name, so that changing a layer does not change the
    weights of the others. With a `limit`, matrices and kernels are uniform in [-limit, limit]. The
    arrays are float64.

    References
    ----------
    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", AISTATS 2010, equation 16.
    """
    return {
        name: _draw_initial_weight(
            name, shape, seed, limit if limit and len(shape) > 1 else network.initial_limit
        )
        for name, shape in weight_shapes(network).items()
    }


def initial_statistics(network: Network) -> Weights:
    """Return the initial running statistics: mean zero, variance one; float64."""
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


def to_native_gates(network: Network, weights: Weights) -> Weights:
    """Return the weights with the gates of each LSTM in the order of every framework, `GATES`."""
    return _reorder_all_gates(network, weights, to_native=True)


def to_canonical_gates(network: Network, weights: Weights) -> Weights:
    """Return native weights with the gates of each LSTM in the order of the network."""
    return _reorder_all_gates(network, weights, to_native=False)


def _reorder_all_gates(network: Network, weights: Weights, to_native: bool) -> Weights:
    gates = {layer.name: layer.gates for layer in network.layers if isinstance(layer, LSTM)}
    reordered = dict(weights)
    for name, value in weights.items():
        own_order = gates.get(name.split(".")[0], GATES)
        orders = (own_order, GATES) if to_native else (GATES, own_order)
        if own_order != GATES:
            reordered[name] = reorder_gates(value, *orders)
    return reordered


def reorder_gates(value: NDArray[Any], current_order: str, target_order: str) -> NDArray[Any]:
    """Return a weight, (gates * units, ...), with its gates in another order.

    An order is the letters of the gates; see :data:`horizont.networks.layers.GATES`.
    """
    blocks = np.split(value, len(current_order))
    return np.concatenate([blocks[current_order.index(gate)] for gate in target_order])
