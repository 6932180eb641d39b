"""Chapter 5: what keeps deep networks trainable."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.norms import batch_norm, batch_norm_backward
from horizont.theory.questions import Question

Array = NDArray[Any]

#: Two layers with a way around them.
RESIDUAL = "y = x + relu(batch_norm(x @ w1, g, o, epsilon=0.0009765625)) @ w2"

RATE = 0.25


def passed_on(layers: int, *, normalised: bool, gain: float, width: int = 64) -> list[Array]:
    """Send a batch through tanh layers with random weights, with batch norm before tanh or not.

    Parameters
    ----------
    gain
        Weights have the variance gain^2 / width.

    Returns
    -------
    list
        The outputs of each layer.
    """
    random = np.random.default_rng(7)
    values = random.normal(size=(128, width))
    found = []
    for _ in range(layers):
        pushed = values @ random.normal(0, gain * width**-0.5, (width, width))
        if normalised:
            pushed = batch_norm(pushed, np.ones(width), np.zeros(width))
        values = np.tanh(pushed)
        found.append(values)
    return found


def gradients_through(blocks: int, *, around: bool, width: int = 64, seed: int = 1) -> Array:
    """Send a gradient back through blocks of a layer with batch norm and relu.

    Parameters
    ----------
    around
        Whether the input of each block is added to its output.

    Returns
    -------
    Array
        The size of the gradient behind each block, from the last to the first, the last being 1.
    """
    random = np.random.default_rng(seed)
    ones, zeros = np.ones(width), np.zeros(width)
    weights = [random.normal(0, width**-0.5, (width, width)) for _ in range(blocks)]
    values: Array = random.normal(size=(64, width))
    kept = []
    for weight in weights:
        pushed = values @ weight
        normal = batch_norm(pushed, ones, zeros)
        kept.append((pushed, normal))
        values = np.maximum(normal, 0) + (values if around else 0)
    gradient: Array = random.normal(size=values.shape)
    sizes = [np.linalg.norm(gradient)]
    for weight, (pushed, normal) in zip(reversed(weights), reversed(kept), strict=True):
        through = gradient * (normal > 0)
        through = batch_norm_backward(through, normal, pushed, ones, zeros)[0] @ weight.T
        gradient = through + (gradient if around else 0)
        sizes.append(np.linalg.norm(gradient))
    return np.asarray(np.array(sizes) / sizes[0])


def questions() -> list[Question]:
    """Ask for batch norm, a residual block, and what dropout drops."""
    random = np.random.default_rng(31)
    draw = random.normal
    normed = {"x": draw(2.0, 3.0, (6, 4)), "g": draw(size=4), "o": draw(size=4)}
    block = normed | {"w1": draw(size=(4, 4)), "w2": draw(size=(4, 4))}
    norm = "y = batch_norm(x, g, o, epsilon=0.0009765625)\nz = sum(y * y * y)"
    several = tuple(block)
    return [
        Question("batch norm", norm, normed, by=tuple(normed), told=("y", "z")),
        Question("residual block", f"{RESIDUAL}\nz = sum(y * y)", block, by=several, told=("y",)),
        Question(
            "dropout",
            f"y = dropout(x, rate={RATE})",
            {"x": np.ones(10_000)},
            by=("x",),
            random=True,
        ),
    ]
