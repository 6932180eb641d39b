"""PyTorch's own input pipeline: a Dataset that fetches whole batches, behind a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from horizont.frameworks.base import Examples, Normalisation, Recipe, Windows

DTYPES = {"float32": torch.float32, "float64": torch.float64}

Batch = tuple[torch.Tensor, torch.Tensor]

#: From what is stored to what a network takes.
Convert = Callable[[torch.Tensor], torch.Tensor]


class ImageDataset(Dataset[Batch]):
    """Images in memory, normalised as they are fetched."""

    def __init__(self, examples: Examples, convert: Convert) -> None:
        self.images = torch.from_numpy(np.ascontiguousarray(examples.images))
        self.labels = torch.from_numpy(np.ascontiguousarray(examples.labels))
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Fetch a batch at once, as DataLoader asks for it where a data set can."""
        chosen = torch.as_tensor(indices)
        return self.convert(self.images[chosen]), self.labels[chosen]


class WindowDataset(Dataset[Batch]):
    """A text in memory, of which windows are cut out."""

    def __init__(self, windows: Windows) -> None:
        self.words = torch.from_numpy(np.ascontiguousarray(windows.words)).long()
        self.places = torch.arange(windows.time_steps + 1)

    def __len__(self) -> int:
        """Count the places where a window may begin."""
        return len(self.words) - len(self.places) + 1

    def __getitems__(self, starts: Sequence[int]) -> Batch:
        """Fetch a batch at once."""
        cut = self.words[torch.as_tensor(starts)[:, None] + self.places]
        return cut[:, :-1], cut[:, 1:]


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: torch.dtype, layout: Any) -> None:
        self.dtype = dtype
        self.layout = layout
        self.enlarge = normalisation.enlarge
        self.scale = torch.from_numpy(normalisation.scale).to(dtype).view(1, -1, 1, 1)
        self.offset = torch.from_numpy(normalisation.offset).to(dtype).view(1, -1, 1, 1)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise (examples, channels, height, width) bytes."""
        if self.enlarge > 1:
            images = images.repeat_interleave(self.enlarge, 2).repeat_interleave(self.enlarge, 3)
        return images.to(self.dtype, memory_format=self.layout).mul_(self.scale).add_(self.offset)


def converter(recipe: Recipe) -> Convert:
    """Tell how what is stored becomes what the network takes."""
    if recipe.normalisation is None:
        return torch.Tensor.long
    layout = torch.channels_last if recipe.build == "channels_last" else torch.preserve_format
    return Normaliser(recipe.normalisation, DTYPES[recipe.dtype], layout)


def batches(examples: Examples | Windows, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order."""
    dataset: Dataset[Batch]
    if isinstance(examples, Windows):
        dataset = WindowDataset(examples)
    else:
        dataset = ImageDataset(examples, convert)
    loader = DataLoader(
        dataset,
        batch_sampler=examples.order,  # type: ignore[arg-type]
        collate_fn=as_it_is,
        num_workers=0,
    )
    return iter(loader)


def as_it_is(batch: Any) -> Any:
    """Leave what a data set fetched as it is."""
    return batch
