"""A network as one pure function of its weights, its state and a batch; channels last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from horizont.frameworks.base import TrainingSetup, Weights
from horizont.networks import layers
from horizont.networks.network import INPUT, Network
from horizont.networks.weights import (
    initial_statistics,
    to_canonical_gates,
    to_native_gates,
    weight_shapes,
)

#: Arrays of JAX by canonical name, in native layout.
Arrays = dict[str, jax.Array]

#: Images, kernels and outputs of a convolution: the layout of JAX's libraries of layers.
DIMENSIONS = ("NHWC", "HWIO", "NHWC")
SIDES = (1, 2)


class NetworkState(NamedTuple):
    """What a network carries to the next batch besides its weights.

    Attributes
    ----------
    statistics
        The running statistics of batch norm.
    recurrent
        Hidden and cell states, (examples, units) each; empty before the first batch.
    key
        Of the random numbers of dropout.
    """

    statistics: Arrays
    recurrent: Arrays
    key: jax.Array


@dataclass
class ForwardPass:
    """The computation of a network on one batch, with the values it computes on the way."""

    weights: Arrays
    state: NetworkState
    masks: Arrays
    training: bool
    key: jax.Array
    values: Arrays
    statistics: Arrays = field(default_factory=dict)
    recurrent: Arrays = field(default_factory=dict)

    def weight(self, layer: layers.Layer, short: str) -> jax.Array:
        """Return a weight of a layer."""
        return self.weights[f"{layer.name}.{short}"]


#: Computes scores and the next state: (weights, state, inputs, masks, training).
NetworkFunction = Callable[..., tuple[jax.Array, NetworkState]]


def network_function(network: Network) -> NetworkFunction:
    """Return the function of a network.

    The name of a layer is a scope of its operators, by which a profile identifies them.
    """
    contexts = network.layer_contexts
    draws_masks = any(
        isinstance(layer, layers.Dropout) and not layer.external_mask for layer in network.layers
    )

    def compute(
        weights: Arrays, state: NetworkState, inputs: jax.Array, masks: Arrays, training: bool
    ) -> tuple[jax.Array, NetworkState]:
        key, next_key = state.key, state.key
        if training and draws_masks:
            key, next_key = jax.random.split(state.key)
        run = ForwardPass(weights, state, masks, training, key, {INPUT: inputs})
        for context in contexts:
            layer = context.layer
            with jax.named_scope(layer.name):
                sources = (run.values[source] for source in context.sources)
                run.values[layer.name] = LAYER_FUNCTIONS[type(layer)](run, layer, *sources)
        next_state = NetworkState(
            {**state.statistics, **run.statistics}, {**state.recurrent, **run.recurrent}, next_key
        )
        return run.values[network.layers[-1].name], next_state

    return compute


def _convolution(run: ForwardPass, layer: layers.Conv, images: jax.Array) -> jax.Array:
    padding = [(layer.padding, layer.padding)] * 2
    strides = (layer.stride, layer.stride)
    output = lax.conv_general_dilated(
        images, run.weight(layer, "weight"), strides, padding, dimension_numbers=DIMENSIONS
    )
    return output + run.weight(layer, "bias") if layer.bias else output


def _pool(run: ForwardPass, layer: layers.MaxPool, images: jax.Array) -> jax.Array:
    window = (1, layer.kernel, layer.kernel, 1)
    strides = (1, layer.stride, layer.stride, 1)
    padding = [(0, 0), *[(layer.padding, layer.padding)] * 2, (0, 0)]
    if layer.mode == "max":
        return lax.reduce_window(images, -np.inf, lax.max, window, strides, padding)
    return lax.reduce_window(images, 0.0, lax.add, window, strides, padding) / layer.kernel**2


def _batch_norm(run: ForwardPass, layer: layers.BatchNorm, images: jax.Array) -> jax.Array:
    statistics = run.state.statistics
    names = (f"{layer.name}.mean", f"{layer.name}.variance")
    if run.training:
        mean = images.mean((0, *SIDES))
        variance = jnp.square(images - mean).mean((0, *SIDES))
        momentum = layer.momentum_float32
        for name, value in zip(names, (mean, variance), strict=True):
            run.statistics[name] = momentum * statistics[name] + (1 - momentum) * value
    else:
        mean, variance = (statistics[name] for name in names)
    scale = run.weight(layer, "weight") * lax.rsqrt(variance + layer.epsilon)
    return (images - mean) * scale + run.weight(layer, "bias")


def _dropout(run: ForwardPass, layer: layers.Dropout, values: jax.Array) -> jax.Array:
    if layer.external_mask:
        return values * run.masks[layer.name] if layer.name in run.masks else values
    if not run.training:
        return values
    key = jax.random.fold_in(run.key, len(run.values))  # another one for each layer
    is_drawn = jax.random.bernoulli(key, 1 - layer.rate, values.shape)
    return jnp.where(is_drawn, values / (1 - layer.rate), 0)


def _flatten(run: ForwardPass, layer: layers.Flatten, values: jax.Array) -> jax.Array:
    """Flatten in the order of the layer: the matrix after it keeps its canonical layout."""
    if values.ndim == 4 and layer.order == "chw":
        values = values.transpose(0, 3, 1, 2)
    return values.reshape(len(values), -1)


def _dense(run: ForwardPass, layer: layers.Dense, values: jax.Array) -> jax.Array:
    return values @ run.weight(layer, "weight").T + run.weight(layer, "bias")


def _lstm(run: ForwardPass, layer: layers.LSTM, values: jax.Array) -> jax.Array:
    """Process (examples, time steps, features) by a loop over the time steps."""
    hidden_weight = run.weight(layer, "hidden_weight")
    parts = [f"{layer.name}.{part}" for part in layer.state_shapes()]
    projected = values @ run.weight(layer, "input_weight").T + run.weight(layer, "bias")

    def cell(
        state: tuple[jax.Array, jax.Array], inputs: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        hidden, memory = state
        gates = jnp.split(inputs + hidden @ hidden_weight.T, len(layers.GATES), axis=-1)
        inward, forget, candidate, outward = gates
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(inward) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(outward) * jnp.tanh(memory)
        return (hidden, memory), hidden

    hidden, memory = (run.state.recurrent[part] for part in parts)
    final, outputs = lax.scan(cell, (hidden, memory), projected.swapaxes(0, 1))
    run.recurrent.update(zip(parts, final, strict=True))
    return outputs.swapaxes(0, 1)


ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}

#: Computes a layer: (pass, layer, inputs...).
LAYER_FUNCTIONS: Mapping[type[layers.Layer], Callable[..., jax.Array]] = {
    layers.Conv: _convolution,
    layers.MaxPool: _pool,
    layers.Upsample: lambda run, layer, images: images.repeat(layer.factor, axis=1).repeat(
        layer.factor, axis=2
    ),
    layers.BatchNorm: _batch_norm,
    layers.Dropout: _dropout,
    layers.Activation: lambda run, layer, values: ACTIVATIONS[layer.function](values),
    layers.Flatten: _flatten,
    layers.Dense: _dense,
    layers.Embedding: lambda run, layer, words: run.weight(layer, "weight")[words],
    layers.LSTM: _lstm,
    layers.GlobalAveragePool: lambda run, layer, images: images.mean(SIDES),
    layers.Add: lambda run, layer, *values: reduce(jnp.add, values),
    layers.Concat: lambda run, layer, *images: jnp.concatenate(images, axis=-1),
}


def native_weights(setup: TrainingSetup) -> Arrays:
    """Return the initial weights: kernels as (height, width, in, out), the rest as it is."""
    weights = to_native_gates(setup.network, setup.weights)
    return {
        name: jnp.array(value.transpose(2, 3, 1, 0) if value.ndim == 4 else value, setup.dtype)
        for name, value in weights.items()
    }


def initial_state(setup: TrainingSetup) -> NetworkState:
    """Return the state before the first batch."""
    statistics = {**initial_statistics(setup.network), **setup.running_statistics}
    return NetworkState(
        {name: jnp.array(value, setup.dtype) for name, value in statistics.items()},
        {},
        jax.random.key(setup.seed),
    )


def to_canonical(network: Network, arrays: Mapping[str, jax.Array]) -> Weights:
    """Return copies of weights, or of arrays like them, in canonical layout."""
    canonical = {
        name: np.ascontiguousarray(value.transpose(3, 2, 0, 1)) if value.ndim == 4 else value
        for name, value in to_named(arrays, weight_shapes(network)).items()
    }
    return to_canonical_gates(network, canonical)


def to_named(arrays: Mapping[str, jax.Array], names: Iterable[str]) -> Weights:
    """Return copies of arrays in the order of the layers.

    A program returns the entries of a dictionary in the order of their names.
    """
    return {name: to_numpy(arrays[name]) for name in names}


def to_numpy(array: jax.Array) -> NDArray[Any]:
    """Return a copy as a NumPy array; a view would change when the buffer is donated."""
    return np.array(array)


def to_native_masks(masks: Weights, dtype: str) -> Arrays:
    """Return dropout masks in native layout; features are flattened in canonical order."""
    return {
        name: jnp.array(mask.transpose(0, 2, 3, 1) if mask.ndim == 4 else mask, dtype)
        for name, mask in masks.items()
    }
