"""PyTorch's input pipeline: a DataLoader over data sets that return whole batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from horizont.config.input import InputPipeline
from horizont.data.files import DecodedImageCache, ImageReader
from horizont.frameworks import base

DTYPES = {"float32": torch.float32, "float64": torch.float64}

Batch = tuple[torch.Tensor, torch.Tensor]

#: Stored examples to network inputs.
Convert = Callable[[torch.Tensor], torch.Tensor]


class ImageDataset(Dataset[Batch]):
    """Images in memory, normalised batch by batch."""

    def __init__(self, data: base.InMemoryImages, convert: Convert) -> None:
        self.images = torch.from_numpy(np.ascontiguousarray(data.images))
        self.labels = torch.from_numpy(np.ascontiguousarray(data.labels))
        self.convert = convert

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return a batch at once; DataLoader prefers this method to ``__getitem__``."""
        selected = torch.as_tensor(indices)
        return self.convert(self.images[selected]), self.labels[selected]


class FileDataset(Dataset[Batch]):
    """Images in files, read and normalised batch by batch."""

    def __init__(self, data: base.ImagesOnDisk, convert: Convert) -> None:
        files = data.files
        self.labels = torch.from_numpy(files.labels)
        self.read: ImageReader = files.read
        if data.input.cache:
            self.read = DecodedImageCache(len(files), files.shape, files.read)
        self.convert = convert

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return a batch at once."""
        selected = np.asarray(indices)
        return self.convert(torch.from_numpy(self.read(selected))), self.labels[selected]


class WindowDataset(Dataset[Batch]):
    """Windows into a text in memory; the tokens are the inputs of the network as they are."""

    def __init__(self, windows: base.TextWindows) -> None:
        self.tokens = torch.from_numpy(np.ascontiguousarray(windows.tokens)).long()
        self.offsets = torch.arange(windows.time_steps + 1)

    def __getitems__(self, starts: Sequence[int]) -> Batch:
        """Return a batch at once."""
        windows = self.tokens[torch.as_tensor(starts)[:, None] + self.offsets]
        return windows[:, :-1], windows[:, 1:]


class Normaliser:
    """Bytes to normalised numbers."""

    def __init__(
        self,
        normalisation: base.Normalisation,
        dtype: torch.dtype,
        memory_format: torch.memory_format,
    ) -> None:
        self.dtype = dtype
        self.memory_format = memory_format
        self.upscale = normalisation.upscale
        self.scale = torch.from_numpy(normalisation.scale).to(dtype).view(1, -1, 1, 1)
        self.offset = torch.from_numpy(normalisation.offset).to(dtype).view(1, -1, 1, 1)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise (examples, channels, height, width) bytes."""
        if self.upscale > 1:
            images = images.repeat_interleave(self.upscale, 2).repeat_interleave(self.upscale, 3)
        return (
            images.to(self.dtype, memory_format=self.memory_format)
            .mul_(self.scale)
            .add_(self.offset)
        )


def input_converter(setup: base.TrainingSetup) -> Convert:
    """Return the conversion of stored examples to network inputs."""
    if setup.normalisation is None:
        return torch.Tensor.long
    memory_format = (
        torch.channels_last if setup.variant == "channels_last" else torch.preserve_format
    )
    return Normaliser(setup.normalisation, DTYPES[setup.dtype], memory_format)


def batches(
    data: base.TrainingData, convert: Convert, *, pin_memory: bool = False
) -> Iterator[Batch]:
    """Return an iterator over the batches, in the order of the data.

    With files, worker processes start when the first batch is requested, and end when the iterator
    is closed.

    Parameters
    ----------
    pin_memory
        Whether batches are in page-locked memory, from which a GPU copies while this process runs.
    """
    dataset: Dataset[Batch]
    pipeline = InputPipeline()
    if isinstance(data, base.ImagesOnDisk):
        dataset = FileDataset(data, convert)
        pipeline = data.input
    elif isinstance(data, base.TextWindows):
        dataset = WindowDataset(data)
    else:
        dataset = ImageDataset(data, convert)
    loader = DataLoader(
        dataset,
        batch_sampler=data.order,
        collate_fn=identity_collate,
        num_workers=pipeline.workers,
        prefetch_factor=pipeline.prefetch or None,
        pin_memory=pin_memory,
    )
    return (
        base.start_on_first_batch(loader) if isinstance(data, base.ImagesOnDisk) else iter(loader)
    )


def identity_collate(batch: Any) -> Any:
    """Return a batch unchanged: the data set has collated it."""
    return batch
