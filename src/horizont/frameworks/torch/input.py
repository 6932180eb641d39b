"""PyTorch's own input pipeline: a Dataset that fetches whole batches, behind a DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from horizont.data.files import DecodedImageCache
from horizont.frameworks.base import (
    ImagesOnDisk,
    InMemoryImages,
    Normalisation,
    TextWindows,
    TrainingSetup,
    lazily,
)

DTYPES = {"float32": torch.float32, "float64": torch.float64}

Batch = tuple[torch.Tensor, torch.Tensor]

#: From what is stored to what a network takes.
Convert = Callable[[torch.Tensor], torch.Tensor]


class ImageDataset(Dataset[Batch]):
    """Images in memory, normalised as they are fetched."""

    def __init__(self, examples: InMemoryImages, convert: Convert) -> None:
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

    def __init__(self, windows: TextWindows) -> None:
        self.tokens = torch.from_numpy(np.ascontiguousarray(windows.tokens)).long()
        self.offsets = torch.arange(windows.time_steps + 1)

    def __len__(self) -> int:
        """Count the places where a window may begin."""
        return len(self.tokens) - len(self.offsets) + 1

    def __getitems__(self, starts: Sequence[int]) -> Batch:
        """Fetch a batch at once."""
        cut = self.tokens[torch.as_tensor(starts)[:, None] + self.offsets]
        return cut[:, :-1], cut[:, 1:]


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: torch.dtype, layout: Any) -> None:
        self.dtype = dtype
        self.layout = layout
        self.upscale = normalisation.upscale
        self.scale = torch.from_numpy(normalisation.scale).to(dtype).view(1, -1, 1, 1)
        self.offset = torch.from_numpy(normalisation.offset).to(dtype).view(1, -1, 1, 1)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise (examples, channels, height, width) bytes."""
        if self.upscale > 1:
            images = images.repeat_interleave(self.upscale, 2).repeat_interleave(self.upscale, 3)
        return images.to(self.dtype, memory_format=self.layout).mul_(self.scale).add_(self.offset)


def input_converter(setup: TrainingSetup) -> Convert:
    """Tell how what is stored becomes what the network takes."""
    if setup.normalisation is None:
        return torch.Tensor.long
    layout = torch.channels_last if setup.variant == "channels_last" else torch.preserve_format
    return Normaliser(setup.normalisation, DTYPES[setup.dtype], layout)


def memory_batches(data: InMemoryImages | TextWindows, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order."""
    dataset: Dataset[Batch]
    if isinstance(data, TextWindows):
        dataset = WindowDataset(data)
    else:
        dataset = ImageDataset(data, convert)
    loader = DataLoader(
        dataset,
        batch_sampler=data.order,  # type: ignore[arg-type]
        collate_fn=identity_collate,
        num_workers=0,
    )
    return iter(loader)


def identity_collate(batch: Any) -> Any:
    """Leave what a data set fetched as it is."""
    return batch


class FileDataset(Dataset[Batch]):
    """Images in files, read and normalised as they are fetched."""

    def __init__(self, examples: ImagesOnDisk, convert: Convert) -> None:
        files = examples.files
        self.labels = torch.from_numpy(files.labels)
        kept = (
            DecodedImageCache(len(files), files.shape, files.read) if examples.input.cache else None
        )
        self.read = kept or files.read
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Fetch a batch at once."""
        chosen = np.asarray(indices)
        return self.convert(torch.from_numpy(self.read(chosen))), self.labels[chosen]


def file_batches(data: ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order.

    Loader processes start when the first batch is asked for. They leave when this is closed.
    """
    given = data.input
    loader = DataLoader(
        FileDataset(data, convert),
        batch_sampler=data.order,  # type: ignore[arg-type]
        collate_fn=identity_collate,
        num_workers=given.workers,
        prefetch_factor=given.prefetch or None,
    )
    return lazily(loader)
