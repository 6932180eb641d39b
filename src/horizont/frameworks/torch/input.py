"""PyTorch's input pipeline: a DataLoader over data sets of whole batches, or of single images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, default_collate

from horizont.config.input import InputPipeline
from horizont.data.files import ImageReader
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

    def __init__(self, labels: NDArray[np.int64], read: ImageReader, convert: Convert) -> None:
        self.labels = torch.from_numpy(labels)
        self.read = read
        self.convert = convert

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return a batch at once."""
        selected = np.asarray(indices)
        return self.convert(torch.from_numpy(self.read(selected))), self.labels[selected]


class SingleImageDataset(Dataset[tuple[torch.Tensor, int]]):
    """Images in files, read and transformed one by one, as in PyTorch's tutorials."""

    def __init__(self, labels: NDArray[np.int64], read: ImageReader, transform: Convert) -> None:
        self.labels = labels
        self.read = read
        self.transform = transform

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return an image and its class."""
        (image,) = self.read(np.array([index]))
        return self.transform(torch.from_numpy(image)), int(self.labels[index])


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
        self.normalisation = normalisation
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


class Compose:
    """Transforms of an image, one after the other."""

    def __init__(self, transforms: Sequence[Convert]) -> None:
        self.transforms = transforms

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """Apply the transforms to a (channels, height, width) image."""
        for transform in self.transforms:
            image = transform(image)
        return image


class Upscale:
    """Repeats each pixel in both directions."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """Upscale a (channels, height, width) image."""
        return image.repeat_interleave(self.factor, 1).repeat_interleave(self.factor, 2)


class ToFloat:
    """Bytes to numbers in [0, 1]."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """Convert an image of bytes."""
        return image.to(torch.float32).div(255)


class Normalize:
    """Standardises channels; tensors are made of the numbers at each call, as by torchvision's."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = mean
        self.std = std

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """Normalise the channels of a (channels, height, width) image."""
        mean, std = (torch.as_tensor(each, dtype=image.dtype) for each in (self.mean, self.std))
        return image.sub(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


def image_transform(normalisation: base.Normalisation) -> Compose:
    """Return the normalisation as transforms of a single image."""
    upscale = [Upscale(normalisation.upscale)] if normalisation.upscale > 1 else []
    mean, std = normalisation.mean.tolist(), normalisation.std.tolist()
    return Compose([*upscale, ToFloat(), Normalize(mean, std)])


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
    is closed. With `pin_memory` batches are in page-locked memory, from which a GPU copies while
    this process runs.
    """
    dataset: Dataset[Any]
    pipeline = InputPipeline()
    collate: Callable[[Any], Any] = identity_collate
    if isinstance(data, base.ImagesOnDisk):
        dataset, collate = _file_dataset(data, convert)
        pipeline = data.input
    elif isinstance(data, base.TextWindows):
        dataset = WindowDataset(data)
    else:
        dataset = ImageDataset(data, convert)
    loader = DataLoader(
        dataset,
        batch_sampler=data.order,
        collate_fn=collate,
        num_workers=pipeline.workers,
        prefetch_factor=pipeline.prefetch or None,
        pin_memory=pin_memory,
    )
    return (
        base.start_on_first_batch(loader) if isinstance(data, base.ImagesOnDisk) else iter(loader)
    )


def _file_dataset(
    data: base.ImagesOnDisk, convert: Convert
) -> tuple[Dataset[Any], Callable[[Any], Any]]:
    """Return the data set of a reader, and what makes a batch of its items."""
    files, read = data.files, data.image_reader()
    if data.reader == "DataLoader":
        return FileDataset(files.labels, read, convert), identity_collate
    assert isinstance(convert, Normaliser), "files have images"
    transform = image_transform(convert.normalisation)
    collate = partial(collate_images, memory_format=convert.memory_format)
    return SingleImageDataset(files.labels, read, transform), collate


def identity_collate(batch: Any) -> Any:
    """Return a batch unchanged: the data set has collated it."""
    return batch


def collate_images(
    examples: list[tuple[torch.Tensor, int]], *, memory_format: torch.memory_format
) -> Batch:
    """Make a batch of single images in the memory format of the network."""
    images, labels = default_collate(examples)
    return images.to(memory_format=memory_format), labels
