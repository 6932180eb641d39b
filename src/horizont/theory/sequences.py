"""Recurrent layers on sequences, (examples, time steps, features), and back through time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.activations import sigmoid

Array = NDArray[Any]


def recurrent(x: Array, input_weight: Array, hidden_weight: Array, bias: Array) -> Array:
    """Let each hidden state follow from the input and the hidden state before.

    Parameters
    ----------
    input_weight, hidden_weight
        (units, features) and (units, units).

    Returns
    -------
    Array
        The hidden states, (examples, time steps, units); the one before the first is zero.
    """
    states = np.zeros((x.shape[0], x.shape[1] + 1, len(bias)))
    for t in range(x.shape[1]):
        pushed = x[:, t] @ input_weight.T + states[:, t] @ hidden_weight.T + bias
        states[:, t + 1] = np.tanh(pushed)
    return states[:, 1:]


def recurrent_backward(gradient: Array, output: Array, *operands: Array) -> tuple[Array, ...]:
    """Go back through time: each step hands on what it owes to the step before."""
    x, input_weight, hidden_weight, bias = operands
    by_x = np.zeros(x.shape)
    by_weights = [np.zeros(w.shape) for w in (input_weight, hidden_weight, bias)]
    carried: Array = np.zeros(output[:, 0].shape)
    for t in reversed(range(x.shape[1])):
        before = output[:, t - 1] if t else np.zeros_like(carried)
        pushed = (gradient[:, t] + carried) * (1 - output[:, t] ** 2)
        _collect(by_weights, pushed, x[:, t], before)
        by_x[:, t] = pushed @ input_weight
        carried = pushed @ hidden_weight
    return by_x, *by_weights


def lstm(x: Array, input_weight: Array, hidden_weight: Array, bias: Array) -> Array:
    """Do the same with a cell that gates write to, keep and read.

    Parameters
    ----------
    input_weight, hidden_weight, bias
        The rows of the four gates in the order input, forget, candidate, output.
    """
    return _lstm_forward(x, input_weight, hidden_weight, bias)[1][:, 1:]


def _lstm_forward(
    x: Array, input_weight: Array, hidden_weight: Array, bias: Array
) -> tuple[Array, Array, Array]:
    """Compute gates (4 units), hidden states and cells, the last two with the zeros before."""
    examples, steps, units = x.shape[0], x.shape[1], len(bias) // 4
    gates = np.zeros((examples, steps, 4 * units))
    hidden, cells = (np.zeros((examples, steps + 1, units)) for _ in range(2))
    for t in range(steps):
        pushed = x[:, t] @ input_weight.T + hidden[:, t] @ hidden_weight.T + bias
        gates[:, t] = sigmoid(pushed)
        gates[:, t, 2 * units : 3 * units] = np.tanh(pushed[:, 2 * units : 3 * units])
        write, keep, candidate, read = np.split(gates[:, t], 4, axis=1)
        cells[:, t + 1] = keep * cells[:, t] + write * candidate
        hidden[:, t + 1] = read * np.tanh(cells[:, t + 1])
    return gates, hidden, cells


def lstm_backward(gradient: Array, output: Array, *operands: Array) -> tuple[Array, ...]:
    """Go back through time along two ways: the hidden state, and the cell."""
    x, input_weight, hidden_weight, bias = operands
    gates, hidden, cells = _lstm_forward(x, input_weight, hidden_weight, bias)
    by_x = np.zeros(x.shape)
    by_weights = [np.zeros(w.shape) for w in (input_weight, hidden_weight, bias)]
    by_hidden, by_cell = np.zeros(output[:, 0].shape), np.zeros(output[:, 0].shape)
    for t in reversed(range(x.shape[1])):
        write, keep, candidate, read = np.split(gates[:, t], 4, axis=1)
        shown = np.tanh(cells[:, t + 1])
        by_hidden = by_hidden + gradient[:, t]
        by_cell = by_cell + by_hidden * read * (1 - shown**2)
        parts = (
            by_cell * candidate * write * (1 - write),
            by_cell * cells[:, t] * keep * (1 - keep),
            by_cell * write * (1 - candidate**2),
            by_hidden * shown * read * (1 - read),
        )
        pushed = np.concatenate(parts, axis=1)
        _collect(by_weights, pushed, x[:, t], hidden[:, t])
        by_x[:, t] = pushed @ input_weight
        by_hidden, by_cell = pushed @ hidden_weight, by_cell * keep
    return by_x, *by_weights


def _collect(by_weights: list[Array], pushed: Array, x: Array, before: Array) -> None:
    """Add a time step's part to the gradients of the weights, which all steps share."""
    by_weights[0] += pushed.T @ x
    by_weights[1] += pushed.T @ before
    by_weights[2] += pushed.sum(axis=0)
