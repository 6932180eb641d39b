"""PyTorch's own input pipeline: a Dataset that fetches whole batches, behind a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from horizont.frameworks.base import Examples, Normalisation

Batch = tuple[torch.Tensor, torch.Tensor]


class ImageDataset(Dataset[Batch]):
    """Images in memory, normalised as they are fetched."""

    def __init__(self, examples: Examples, normalise: Normaliser) -> None:
        self.images = torch.from_numpy(np.ascontiguousarray(examples.images))
        self.labels = torch.from_numpy(np.ascontiguousarray(examples.labels))
        self.normalise = normalise

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Fetch a batch at once, as DataLoader asks for it where a data set can."""
        chosen = torch.as_tensor(indices)
        return self.normalise(self.images[chosen]), self.labels[chosen]


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.enlarge = normalisation.enlarge
        self.scale = torch.from_numpy(normalisation.scale).to(dtype).view(1, -1, 1, 1)
        self.offset = torch.from_numpy(normalisation.offset).to(dtype).view(1, -1, 1, 1)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise (examples, channels, height, width) bytes."""
        if self.enlarge > 1:
            images = images.repeat_interleave(self.enlarge, 2).repeat_interleave(self.enlarge, 3)
        return images.to(self.dtype).mul_(self.scale).add_(self.offset)


def batches(examples: Examples, normalise: Normaliser) -> Iterator[Batch]:
    """Yield normalised batches in the given order."""
    loader = DataLoader(
        ImageDataset(examples, normalise),
        batch_sampler=examples.order,  # type: ignore[arg-type]
        collate_fn=_as_it_is,
        num_workers=0,
    )
    return iter(loader)


def _as_it_is(batch: Any) -> Any:
    return batch
