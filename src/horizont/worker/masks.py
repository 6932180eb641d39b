"""Dropout for the comparator: the same elements are dropped in every framework."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np

from horizont.frameworks.base import Weights
from horizont.networks import Dropout, Network


def with_fed_dropouts(network: Network) -> Network:
    """Let all dropouts of a network take their masks from outside."""
    layers = tuple(
        replace(layer, fed=True) if isinstance(layer, Dropout) else layer
        for layer in network.layers
    )
    return replace(network, layers=layers)


@dataclass(frozen=True)
class Masks:
    """The masks of all dropouts of a network, drawn for each step.

    Attributes
    ----------
    reverse
        The examples of each batch come in reverse, and so do their masks.
    """

    network: Network
    seed: int
    reverse: bool = False

    def of_step(self, step: int, examples: int) -> Weights:
        """Draw the masks of a step: zero with the layer's rate, else 1 / (1 - rate)."""
        masks = {}
        for place in self.network.places:
            layer = place.layer
            if isinstance(layer, Dropout):
                random = np.random.default_rng([self.seed, step, zlib.crc32(layer.name.encode())])
                kept = random.random((examples, *place.shape)) >= layer.rate
                masks[layer.name] = (kept[::-1] if self.reverse else kept) / (1.0 - layer.rate)
        return masks
