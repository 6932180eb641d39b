"""JAX's input pipeline: it has none of its own, so NumPy gathers, reads and normalises batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from horizont.frameworks import base

#: Inputs and targets.
Batch = tuple[jax.Array, jax.Array]

#: The same as NumPy arrays.
HostBatch = tuple[NDArray[Any], NDArray[Any]]

#: Stored examples to network inputs.
Convert = Callable[[NDArray[Any]], NDArray[Any]]


class Normaliser:
    """Bytes to normalised numbers."""

    def __init__(self, normalisation: base.Normalisation, dtype: str) -> None:
        self.normalisation = normalisation
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


def image_transform(normalisation: base.Normalisation) -> Convert:
    """Return the normalisation of a single (height, width, channels) image."""
    upscale = normalisation.upscale
    mean, std = (each.astype(np.float32) for each in (normalisation.mean, normalisation.std))

    def transform(image: NDArray[Any]) -> NDArray[Any]:
        if upscale > 1:
            image = image.repeat(upscale, axis=0).repeat(upscale, axis=1)
        return (image.astype(np.float32) / 255 - mean) / std

    return transform


def input_converter(setup: base.TrainingSetup) -> Convert:
    """Return the conversion of stored examples to network inputs."""
    if setup.normalisation is None:
        return to_indices
    return Normaliser(setup.normalisation, setup.dtype)


def to_indices(indices: NDArray[Any]) -> NDArray[Any]:
    """Convert word and class indices to the type that JAX has for them by default."""
    return np.asarray(indices, np.int32)


def batches(data: base.TrainingData, convert: Convert) -> Iterator[Batch]:
    """Return an iterator over the batches, in the order of the data.

    With files, threads start when the first batch is requested, and end when the iterator is
    closed.
    """
    if isinstance(data, base.ImagesOnDisk):
        return file_batches(data, convert)
    if isinstance(data, base.TextWindows):
        windows = map(data.inputs_and_targets, data.order)
        return (to_device((to_indices(inputs), to_indices(targets))) for inputs, targets in windows)
    images, labels = base.to_channels_last(data.images), to_indices(data.labels)
    return (to_device((convert(images[indices]), labels[indices])) for indices in data.order)


def to_device(batch: HostBatch) -> Batch:
    """Return the arrays of a batch as those of JAX."""
    inputs, targets = batch
    return jnp.asarray(inputs), jnp.asarray(targets)


def file_batches(data: base.ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield the batches of files, read by threads if there are workers."""
    read, labels = data.image_reader(), to_indices(data.files.labels)
    if data.reader == "ThreadPoolExecutor per image":
        assert isinstance(convert, Normaliser), "files have images"
        transform = image_transform(convert.normalisation)

        def load(indices: NDArray[Any]) -> HostBatch:
            images = [transform(base.to_channels_last(read(index[None]))[0]) for index in indices]
            return np.stack(images), labels[indices]
    else:

        def load(indices: NDArray[Any]) -> HostBatch:
            return convert(base.to_channels_last(read(indices))), labels[indices]

    if not data.input.workers:
        yield from (to_device(load(indices)) for indices in data.order)
        return
    pool = ThreadPoolExecutor(data.input.workers)
    pending: deque[Future[HostBatch]] = deque()
    try:
        for indices in data.order:
            pending.append(pool.submit(load, indices))
            if len(pending) > data.input.prefetch:
                yield to_device(pending.popleft().result())
        while pending:
            yield to_device(pending.popleft().result())
    finally:
        pool.shutdown(cancel_futures=True)
