"""Gluon's own input pipeline: a Dataset whose items are whole batches, behind a DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt

from horizont.data.files import DecodedImageCache, ImageFiles, ImageReader
from horizont.frameworks.base import (
    ImagesOnDisk,
    InMemoryImages,
    Normalisation,
    TextWindows,
    TrainingSetup,
    lazily,
)

#: What a network takes and what it is to find, as NDArrays.
Batch = tuple[Any, Any]

#: From what is stored to what a network takes.
Convert = Callable[[npt.NDArray[Any]], Any]


class BatchDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """Images in memory; an item is the batch of the given indices, normalised as it is fetched.

    Normalising in NumPy ends before the batch is handed over. As MXNet operators it would only
    be queued, and its time would appear in the forward pass.
    """

    def __init__(self, examples: InMemoryImages, convert: Convert) -> None:
        self.images = examples.images
        self.labels = examples.labels
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Batch:
        """Fetch a batch at once, so that no example passes through Python on its own."""
        images = self.convert(self.images[indices])
        return images, to_index_tensor(self.labels[indices])


class WindowDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """A text in memory; an item is the batch of the windows that begin at given places."""

    def __init__(self, windows: TextWindows) -> None:
        self.windows = windows

    def __len__(self) -> int:
        """Count the places where a window may begin."""
        return len(self.windows.tokens) - self.windows.time_steps

    def __getitem__(self, starts: npt.NDArray[np.int64]) -> Batch:
        """Cut out a batch at once."""
        words, targets = self.windows.inputs_and_targets(starts)
        return to_index_tensor(words), to_index_tensor(targets)


def to_index_tensor(values: npt.NDArray[Any]) -> Any:
    """Put the numbers of words or classes into an NDArray."""
    return wrap_without_copy(values, "int32")


def wrap_without_copy(values: npt.NDArray[Any], dtype: str) -> Any:
    """Make an NDArray of the very memory of an array, which nobody may write to any more.

    The usual `nd.array` copies by the engine, and so waits until all that was queued before is
    computed: a step's computing would be booked on its load, and nothing loaded meanwhile.
    """
    return mx.nd.from_numpy(np.ascontiguousarray(values, dtype=dtype), zero_copy=True)


class Normaliser:
    """From bytes to normalised numbers."""

    def __init__(self, normalisation: Normalisation, dtype: str) -> None:
        self.dtype = dtype
        self.upscale = normalisation.upscale
        self.scale = normalisation.scale.astype(dtype).reshape(1, -1, 1, 1)
        self.offset = normalisation.offset.astype(dtype).reshape(1, -1, 1, 1)

    def __call__(self, images: npt.NDArray[np.uint8]) -> Any:
        """Normalise (examples, channels, height, width) bytes into an NDArray."""
        if self.upscale > 1:
            images = images.repeat(self.upscale, axis=2).repeat(self.upscale, axis=3)
        values = images.astype(self.dtype)
        values *= self.scale
        values += self.offset
        return wrap_without_copy(values, self.dtype)


def input_converter(setup: TrainingSetup) -> Convert:
    """Tell how what is stored becomes what the network takes."""
    if setup.normalisation is None:
        return to_index_tensor
    return Normaliser(setup.normalisation, setup.dtype)


def memory_batches(data: InMemoryImages | TextWindows, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order."""
    if isinstance(data, TextWindows):
        dataset = WindowDataset(data)
    else:
        dataset = BatchDataset(data, convert)
    loader = mx.gluon.data.DataLoader(
        dataset,
        batch_sampler=[[indices] for indices in data.order],
        batchify_fn=unwrap_batch,
        num_workers=0,
    )
    return iter(loader)


def unwrap_batch(items: list[Batch]) -> Batch:
    """Take the one item of a batch: it is a batch already."""
    (batch,) = items
    return batch


#: Images that are converted at once.
CONVERSION_CHUNK = 1000


def write_recordio(files: ImageFiles) -> Path:
    """Write the images as RecordIO beside their files, unless that was done; tell the path.

    A record is the bytes of an image behind MXNet's header, with the number of the image as its
    key. Images of this size are stored as they are: compressing them would be another experiment.
    """
    target = files.paths[0].parent / "train.rec"
    if target.exists():
        return target
    temporary = target.with_name(f".train.{os.getpid()}")
    index, records = (temporary.with_suffix(f".{end}") for end in ("idx", "rec"))
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(records), "w")
    for first in range(0, len(files), CONVERSION_CHUNK):
        numbers = np.arange(first, min(first + CONVERSION_CHUNK, len(files)))
        for number, image in zip(numbers, files.read(numbers), strict=True):
            header = mx.recordio.IRHeader(0, float(files.labels[number]), int(number), 0)
            writer.write_idx(int(number), mx.recordio.pack(header, image.tobytes()))
    writer.close()
    os.replace(index, target.with_suffix(".idx"))
    os.replace(records, target)
    return target


def open_records(path: Path, shape: tuple[int, ...]) -> ImageReader:
    """Make the function that reads images from a RecordIO file by their numbers."""
    records = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")

    def read(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        images = np.empty((len(indices), *shape), np.uint8)
        for image, number in zip(images, indices, strict=True):
            _, content = mx.recordio.unpack(records.read_idx(int(number)))
            image[:] = np.frombuffer(content, np.uint8).reshape(shape)
        return images

    return read


class FileDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """Images in files; an item is the batch of the given indices, read and normalised."""

    def __init__(self, labels: npt.NDArray[np.int64], read: ImageReader, convert: Convert) -> None:
        self.labels = labels
        self.read = read
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Batch:
        """Fetch a batch at once."""
        return self.convert(self.read(indices)), to_index_tensor(self.labels[indices])


def file_batches(data: ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order.

    Loader processes start when the first batch is asked for. They leave when this is closed.
    """
    if data.reader == "NDArrayIter":
        return epoch_batches(data, convert)
    files, given = data.files, data.input
    read: ImageReader = files.read
    if data.reader == "RecordIO":
        read = open_records(write_recordio(files), files.shape)
    if given.cache:
        read = DecodedImageCache(len(files), files.shape, read)
    return lazily(load_batches(FileDataset(files.labels, read, convert), data))


def load_batches(dataset: FileDataset, examples: ImagesOnDisk) -> Iterator[Batch]:
    """Read by Gluon's loader; what comes from another process is moved into memory of our own."""
    given = examples.input
    loader = mx.gluon.data.DataLoader(
        dataset,
        batch_sampler=[[indices] for indices in examples.order],
        batchify_fn=unwrap_batch,
        num_workers=given.workers,
        prefetch=given.prefetch,
    )
    if not given.workers:
        yield from loader
        return
    for batch in loader:
        inputs, labels = (part.as_in_context(mx.cpu()) for part in batch)
        inputs.wait_to_read()  # else the copy would be a part of the forward pass
        yield inputs, labels


def epoch_batches(examples: ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Read everything, put it in the order of an epoch, and let NDArrayIter deal it out.

    NDArrayIter has its own random order or none, so it is given the examples in order already.
    """
    files = examples.files
    images = files.read(np.arange(len(files)))
    order = [np.asarray(indices) for indices in examples.order]
    length = max(1, len(files) // len(order[0]))
    for first in range(0, len(order), length):
        yield from _iterate_epoch(images, files, order[first : first + length], examples, convert)


def _iterate_epoch(
    images: npt.NDArray[np.uint8],
    files: ImageFiles,
    order: list[npt.NDArray[np.int64]],
    examples: ImagesOnDisk,
    convert: Convert,
) -> Iterator[Batch]:
    indices = np.concatenate(order)
    dealt: Any = mx.io.NDArrayIter(
        mx.nd.array(images[indices], dtype="uint8"),
        to_index_tensor(files.labels[indices]),
        batch_size=len(order[0]),
    )
    if examples.input.prefetch:
        dealt = mx.io.PrefetchingIter(dealt)
    for batch in dealt:
        yield convert(batch.data[0].asnumpy()), batch.label[0]
