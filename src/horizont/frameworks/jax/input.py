"""JAX's input pipeline: it has none of its own, so batches are gathered and normalised by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from horizont.frameworks import base

#: Inputs and targets.
Batch = tuple[jax.Array, jax.Array]

#: Stored examples to network inputs.
Convert = Callable[[NDArray[Any]], NDArray[Any]]


class Normaliser:
    """Bytes to normalised numbers."""

    def __init__(self, normalisation: base.Normalisation, dtype: str) -> None:
        self.upscale = normalisation.upscale
        self.scale = normalisation.scale.astype(dtype)
        self.offset = normalisation.offset.astype(dtype)

    def __call__(self, images: NDArray[Any]) -> NDArray[Any]:
        """Normalise (examples, height, width, channels) bytes."""
        normalised = images * self.scale
        normalised += self.offset
        if self.upscale > 1:
            normalised = normalised.repeat(self.upscale, axis=1).repeat(self.upscale, axis=2)
        return normalised


def input_converter(setup: base.TrainingSetup) -> Convert:
    """Return the conversion of stored examples to network inputs."""
    if setup.normalisation is None:
        return to_indices
    return Normaliser(setup.normalisation, setup.dtype)


def to_indices(indices: NDArray[Any]) -> NDArray[Any]:
    """Convert word and class indices to the type that JAX has for them by default."""
    return np.asarray(indices, np.int32)


def to_native_layout(inputs: NDArray[Any]) -> NDArray[Any]:
    """Return images with the channels last; texts are unchanged."""
    return np.ascontiguousarray(inputs.transpose(0, 2, 3, 1)) if inputs.ndim > 2 else inputs


def batches(data: base.TrainingData, convert: Convert) -> Iterator[Batch]:
    """Return an iterator over the batches, in the order of the data."""
    if isinstance(data, base.TextWindows):
        return (
            _to_device(*map(to_indices, data.inputs_and_targets(starts))) for starts in data.order
        )
    assert isinstance(data, base.InMemoryImages)
    images, labels = to_native_layout(data.images), to_indices(data.labels)
    return (_to_device(convert(images[indices]), labels[indices]) for indices in data.order)


def _to_device(inputs: NDArray[Any], targets: NDArray[Any]) -> Batch:
    return jnp.asarray(inputs), jnp.asarray(targets)
