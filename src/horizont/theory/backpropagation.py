"""Chapter 3: the computation graph, and a network's gradients by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.differentiate import finite_differences, gradients
from horizont.theory.formula import read_formula
from horizont.theory.questions import Question
from horizont.theory.scores import softmax

Array = NDArray[Any]

#: The smallest graph in which a value is used twice.
GRAPH = """
c = a + b
d = b + 1
e = c * d
"""

#: Two inputs, three hidden neurons, two classes.
NETWORK = """
h = tanh(x @ W1 + b1)
z = h @ W2 + b2
loss = cross_entropy(z, labels)
"""

WEIGHTS = ("W1", "b1", "W2", "b2")


def network_inputs(seed: int = 5) -> dict[str, Array]:
    """Make examples, labels and weights for the small network."""
    random = np.random.default_rng(seed)
    return {
        "x": random.normal(size=(4, 2)),
        "labels": np.array([0, 1, 1, 0]),
        "W1": random.normal(size=(2, 3)),
        "b1": random.normal(size=3),
        "W2": random.normal(size=(3, 2)),
        "b2": random.normal(size=2),
    }


def by_hand(
    *, x: Array, labels: Array, W1: Array, b1: Array, W2: Array, b2: Array
) -> dict[str, Array]:
    """Derive the loss of the small network by each of its weights, line by line.

    Returns
    -------
    dict
        Gradients by the name of the weight.
    """
    h = np.tanh(x @ W1 + b1)
    p = softmax(h @ W2 + b2)
    wanted = np.eye(len(b2))[labels]
    by_z = (p - wanted) / len(x)  # the mean over the examples divides by their number
    by_h = by_z @ W2.T
    by_sum = by_h * (1 - h**2)  # through tanh
    return {"W1": x.T @ by_sum, "b1": by_sum.sum(0), "W2": h.T @ by_z, "b2": by_z.sum(0)}


def difference_errors(steps: Array) -> Array:
    """Tell how wrong finite differences are, for each size of their step.

    Returns
    -------
    Array
        Relative errors of the gradient by the first weights of the small network.
    """
    formula, given = read_formula(NETWORK), network_inputs()
    exact = gradients(formula, given, ["W1"])["W1"]
    found = [finite_differences(formula, given, "W1", step=float(step)) for step in steps]
    return np.array([np.linalg.norm(each - exact) / np.linalg.norm(exact) for each in found])


def graph_question(a: float = 2.0, b: float = 1.0) -> Question:
    """Ask for all values of the small graph and its gradients."""
    given = {"a": np.array(a), "b": np.array(b)}
    return Question("(a + b) * (b + 1)", GRAPH, given, by=("a", "b"), told=("c", "d", "e"))


def questions() -> list[Question]:
    """Ask for the graph, the network, and one value that is used many times."""
    given: Mapping[str, Array] = network_inputs()
    reused = {"x": np.array([0.5, -1.0, 2.0])}
    return [
        graph_question(),
        Question("small network", NETWORK, given, by=WEIGHTS, told=("h", "z", "loss")),
        Question("x * x * sin(x) + x", "y = x * x * sin(x) + x", reused, by=("x",)),
    ]


def three_ways() -> dict[str, float]:
    """Tell how far the algorithm and finite differences are from the gradients by hand."""
    formula, given = read_formula(NETWORK), network_inputs()
    hand = _row(by_hand(**given))
    graph = _row(gradients(formula, given, WEIGHTS))
    moved = _row({name: finite_differences(formula, given, name) for name in WEIGHTS})
    return {
        "weights": float(hand.size),
        "by_the_algorithm,_relative_distance": float(np.linalg.norm(graph - hand)) / _size(hand),
        "by_finite_differences": float(np.linalg.norm(moved - hand)) / _size(hand),
        "passes_of_finite_differences": 2.0 * hand.size,
    }


def _row(by_weight: Mapping[str, Array]) -> Array:
    return np.concatenate([by_weight[name].ravel() for name in WEIGHTS])


def _size(values: Array) -> float:
    return float(np.linalg.norm(values))
