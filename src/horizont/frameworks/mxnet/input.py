"""Gluon's own input pipeline: a Dataset whose items are whole batches, behind a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from horizont.frameworks.base import Examples, Normalisation, Recipe, Windows
from horizont.frameworks.mxnet.compat import mx

#: What a network takes and what it is to find, as NDArrays.
Batch = tuple[Any, Any]

#: From what is stored to what a network takes.
Convert = Callable[[npt.NDArray[Any]], Any]


class BatchDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """Images in memory; an item is the batch of the given indices, normalised as it is fetched.

    Normalising in NumPy ends before the batch is handed over. As MXNet operators it would only
    be queued, and its time would appear in the forward pass.
    """

    def __init__(self, examples: Examples, convert: Convert) -> None:
        self.images = examples.images
        self.labels = examples.labels
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Batch:
        """Fetch a batch at once, so that no example passes through Python on its own."""
        images = self.convert(self.images[indices])
        return images, numbers(self.labels[indices])


class WindowDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """A text in memory; an item is the batch of the windows that begin at given places."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows

    def __len__(self) -> int:
        """Count the places where a window may begin."""
        return len(self.windows.words) - self.windows.time_steps

    def __getitem__(self, starts: npt.NDArray[np.int64]) -> Batch:
        """Cut out a batch at once."""
        words, targets = self.windows.at(starts)
        return numbers(words), numbers(targets)


def numbers(values: npt.NDArray[Any]) -> Any:
    """Put the numbers of words or classes into an NDArray."""
    return handed_over(values, "int32")


def handed_over(values: npt.NDArray[Any], dtype: str) -> Any:
    """Make an NDArray of the very memory of an array, which nobody may write to any more.

    The usual `nd.array` copies by the engine, and so waits until all that was queued before is
    computed: a step's computing would be booked on its load, and nothing loaded meanwhile.
    """
    return mx.nd.from_numpy(np.ascontiguousarray(values, dtype=dtype), zero_copy=True)


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: str) -> None:
        self.dtype = dtype
        self.enlarge = normalisation.enlarge
        self.scale = normalisation.scale.astype(dtype).reshape(1, -1, 1, 1)
        self.offset = normalisation.offset.astype(dtype).reshape(1, -1, 1, 1)

    def __call__(self, images: npt.NDArray[np.uint8]) -> Any:
        """Normalise (examples, channels, height, width) bytes into an NDArray."""
        if self.enlarge > 1:
            images = images.repeat(self.enlarge, axis=2).repeat(self.enlarge, axis=3)
        values = images.astype(self.dtype)
        values *= self.scale
        values += self.offset
        return handed_over(values, self.dtype)


def converter(recipe: Recipe) -> Convert:
    """Tell how what is stored becomes what the network takes."""
    if recipe.normalisation is None:
        return numbers
    return Normaliser(recipe.normalisation, recipe.dtype)


def batches(examples: Examples | Windows, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order."""
    if isinstance(examples, Windows):
        dataset = WindowDataset(examples)
    else:
        dataset = BatchDataset(examples, convert)
    loader = mx.gluon.data.DataLoader(
        dataset,
        batch_sampler=[[indices] for indices in examples.order],
        batchify_fn=only,
        num_workers=0,
    )
    return iter(loader)


def only(items: list[Batch]) -> Batch:
    """Take the one item of a batch: it is a batch already."""
    (batch,) = items
    return batch
