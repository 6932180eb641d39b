"""Chapter 1: a neuron, its activation, and what becomes of gradients on their way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.activations import FUNCTIONS
from horizont.theory.questions import Question

Array = NDArray[Any]

#: Where the derivative is smaller, a function counts as saturated.
SATURATED = 0.05


def neuron(x: Array, weights: Array, bias: float, activation: str = "sigmoid") -> Array:
    """Weigh the inputs, add them up, add the bias, and apply the activation function.

    Parameters
    ----------
    x
        (examples, inputs).
    weights
        (inputs,).
    """
    function, _ = FUNCTIONS[activation]
    return function(x @ weights + bias)


def gradients_by_layer(activation: str, layers: int, width: int = 64, seed: int = 1) -> Array:
    """Send a gradient back through a deep chain of random layers.

    Weights have the variance 1 / width, so that a layer without activation would keep the size
    of what passes through it.

    Returns
    -------
    Array
        The size of the gradient at each layer, from the last to the first, the last being 1.
    """
    function, slope = FUNCTIONS[activation]
    random = np.random.default_rng(seed)
    weights = [random.normal(0, width**-0.5, (width, width)) for _ in range(layers)]
    values, pushed = random.normal(size=(32, width)), []
    for weight in weights:
        pushed.append(values @ weight)
        values = function(pushed[-1])
    gradient = random.normal(size=values.shape)
    sizes = [np.linalg.norm(gradient)]
    for weight, push in zip(reversed(weights), reversed(pushed), strict=True):
        gradient = (gradient * slope(push)) @ weight.T
        sizes.append(np.linalg.norm(gradient))
    return np.asarray(np.array(sizes) / sizes[0])


def saturation_point(activation: str, threshold: float = SATURATED) -> float:
    """Tell from which positive input on the derivative stays below a threshold."""
    _, slope = FUNCTIONS[activation]
    x = np.linspace(0, 20, 200_001)
    flat = slope(x) < threshold
    return float(x[flat][0]) if flat[-1] else float("inf")


def questions(names: Sequence[str] = tuple(FUNCTIONS)) -> list[Question]:
    """Ask for each activation function, its derivative, and a layer of neurons with it."""
    random = np.random.default_rng(11)
    along = np.linspace(-8, 8, 33)  # relu has no derivative at 0, where all say 0
    layer = {
        "x": random.normal(size=(5, 3)),
        "w": random.normal(size=(3, 4)),
        "b": random.normal(size=4),
    }
    single = [Question(f"{name}(x)", f"y = {name}(x)", {"x": along}, by=("x",)) for name in names]
    several = [
        Question(f"{name}(x @ w + b)", f"y = {name}(x @ w + b)", layer, by=("x", "w", "b"))
        for name in names
    ]
    return [*single, *several]
