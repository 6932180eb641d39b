"""Chapter 4: what a convolution costs and what filters answer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horizont.theory.images import convolution, output_size
from horizont.theory.questions import Question

Array = NDArray[Any]

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Costs:
    """What a layer needs for one image.

    Attributes
    ----------
    multiplications
        Each goes with an addition.
    """

    outputs: int
    weights: int
    multiplications: int

    @property
    def output_bytes(self) -> int:
        """Memory of the outputs in float32."""
        return self.outputs * FLOAT32_BYTES

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights in float32."""
        return self.weights * FLOAT32_BYTES


def convolution_costs(
    size: int, channels: int, filters: int, kernel: int, *, stride: int = 1, padding: int = 0
) -> Costs:
    """Count for a convolution on a square image: weights are shared by all places."""
    places = output_size(size, kernel, stride, padding) ** 2
    inputs = channels * kernel**2
    return Costs(places * filters, filters * (inputs + 1), places * filters * inputs)


def dense_costs(inputs: int, outputs: int) -> Costs:
    """Count for a fully connected layer: every output has a weight for every input."""
    return Costs(outputs, outputs * (inputs + 1), outputs * inputs)


def answers_of(image: Array, kernels: Array) -> Array:
    """Lay filters over one image.

    Parameters
    ----------
    image
        (channels, height, width).

    Returns
    -------
    Array
        A map for each filter, (filters, places down, places across).
    """
    return np.asarray(convolution(image[None], kernels)[0])


def smoothness(kernels: Array) -> float:
    """Tell how alike neighbouring weights of filters are: their correlation, down and across."""
    one = np.concatenate([kernels[..., 1:, :].ravel(), kernels[..., :, 1:].ravel()])
    other = np.concatenate([kernels[..., :-1, :].ravel(), kernels[..., :, :-1].ravel()])
    return float(np.corrcoef(one, other)[0, 1])


def questions() -> list[Question]:
    """Ask for convolutions of several strides and paddings, for poolings, and for a chain."""
    random = np.random.default_rng(21)
    images, kernels = random.normal(size=(2, 3, 9, 9)), random.normal(size=(4, 3, 3, 3))
    asked = [
        Question(
            f"convolution, stride {stride}, padding {padding}",
            f"y = convolution(x, w, stride={stride}, padding={padding})\nz = sum(y * y)",
            {"x": images, "w": kernels},
            by=("x", "w"),
            told=("y", "z"),
        )
        for stride, padding in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 2))
    ]
    for kind in ("max", "average"):
        formula = f"y = {kind}_pool(x, size=3, stride=2)\nz = sum(y * y)"
        given = {"x": images}
        asked.append(Question(f"{kind} pooling", formula, given, by=("x",), told=("y", "z")))
    chain = "y = max_pool(relu(convolution(x, w, padding=1)), size=3, stride=3)\nz = sum(y * y)"
    asked.append(
        Question("a whole stage", chain, {"x": images, "w": kernels}, by=("x", "w"), told=("y",))
    )
    return asked
