"""Gluon's own input pipeline: a Dataset whose items are whole batches, behind a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from horizont.frameworks.base import Examples, Normalisation
from horizont.frameworks.mxnet.compat import mx

#: Images and labels, as NDArrays.
Batch = tuple[Any, Any]


class BatchDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """Images in memory; an item is the batch of the given indices, normalised as it is fetched.

    Normalising in NumPy ends before the batch is handed over. As MXNet operators it would only
    be queued, and its time would appear in the forward pass.
    """

    def __init__(self, examples: Examples, normalise: Normaliser) -> None:
        self.images = examples.images
        self.labels = examples.labels
        self.normalise = normalise

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Batch:
        """Fetch a batch at once, so that no example passes through Python on its own."""
        images = self.normalise(self.images[indices])
        return images, mx.nd.array(self.labels[indices], dtype="int32")


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
        numbers = images.astype(self.dtype)
        numbers *= self.scale
        numbers += self.offset
        return mx.nd.array(numbers, dtype=self.dtype)


def batches(examples: Examples, normalise: Normaliser) -> Iterator[Batch]:
    """Yield normalised batches in the given order."""
    loader = mx.gluon.data.DataLoader(
        BatchDataset(examples, normalise),
        batch_sampler=[[indices] for indices in examples.order],
        batchify_fn=_only,
        num_workers=0,
    )
    return iter(loader)


def _only(items: list[Batch]) -> Batch:
    (batch,) = items
    return batch
