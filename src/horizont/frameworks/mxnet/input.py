"""MXNet's input pipelines: Gluon's DataLoader over batches or single images, and NDArrayIter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt

from horizont.data.files import ImageFiles, ImageReader
from horizont.frameworks import base

#: Inputs and targets as NDArrays.
Batch = tuple[Any, Any]

#: Stored examples to network inputs.
Convert = Callable[[npt.NDArray[Any]], Any]


class ImageDataset(mx.gluon.data.Dataset):
    """Images in memory or files; an item is the batch of the given indices, read and normalised.

    Normalising in NumPy ends before the batch is returned. With MXNet's operators it would only be
    queued, and its time would be part of the forward pass.
    """

    def __init__(self, labels: npt.NDArray[np.int64], read: ImageReader, convert: Convert) -> None:
        self.labels = labels
        self.read = read
        self.convert = convert

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Batch:
        """Return a batch at once, without Python code per example."""
        return self.convert(self.read(indices)), to_index_tensor(self.labels[indices])


class SingleImageDataset(mx.gluon.data.Dataset):
    """Images in files, read one by one, with the channels last as in Gluon's own data sets."""

    def __init__(self, labels: npt.NDArray[np.int64], read: ImageReader, upscale: int) -> None:
        self.labels = labels.astype(np.int32)
        self.read = read
        self.upscale = upscale

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, np.int32]:
        """Return an image of bytes, and its class."""
        (image,) = self.read(np.array([index]))
        image = image.transpose(1, 2, 0)
        if self.upscale > 1:
            image = image.repeat(self.upscale, axis=0).repeat(self.upscale, axis=1)
        return mx.nd.array(image, dtype="uint8"), self.labels[index]


class WindowDataset(mx.gluon.data.Dataset):
    """A text in memory; an item is the batch of the windows with the given starts."""

    def __init__(self, windows: base.TextWindows) -> None:
        self.windows = windows

    def __getitem__(self, starts: npt.NDArray[np.int64]) -> Batch:
        """Return a batch at once."""
        inputs, targets = self.windows.inputs_and_targets(starts)
        return to_index_tensor(inputs), to_index_tensor(targets)


def to_index_tensor(values: npt.NDArray[Any]) -> Any:
    """Convert indices of words or classes to an NDArray."""
    return wrap_without_copy(values, "int32")


def wrap_without_copy(values: npt.NDArray[Any], dtype: str) -> Any:
    """Return an NDArray that shares the memory of an array, which must not be written any more.

    `nd.array` copies through the engine and so waits for everything that was queued before: a
    step's computation would be measured as its load phase, and loading would not overlap with it.
    """
    return mx.nd.from_numpy(np.ascontiguousarray(values, dtype=dtype), zero_copy=True)


class Normaliser:
    """Bytes to normalised numbers."""

    def __init__(self, normalisation: base.Normalisation, dtype: str) -> None:
        self.normalisation = normalisation
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


def image_transform(normalisation: base.Normalisation) -> Any:
    """Return the normalisation as transforms of a single (height, width, channels) image."""
    mean, std = (tuple(each.tolist()) for each in (normalisation.mean, normalisation.std))
    transforms = mx.gluon.data.vision.transforms
    return transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)])


def input_converter(setup: base.TrainingSetup) -> Convert:
    """Return the conversion of stored examples to network inputs."""
    if setup.normalisation is None:
        return to_index_tensor
    return Normaliser(setup.normalisation, setup.dtype)


def batches(data: base.TrainingData, convert: Convert) -> Iterator[Batch]:
    """Return an iterator over the batches, in the order of the data.

    With files, worker processes start when the first batch is requested, and end when the iterator
    is closed.
    """
    if isinstance(data, base.ImagesOnDisk):
        if data.reader == "NDArrayIter":
            return _epoch_batches(data, convert)
        return base.start_on_first_batch(_file_batches(data, convert))
    dataset = (
        WindowDataset(data)
        if isinstance(data, base.TextWindows)
        else ImageDataset(data.labels, data.images.__getitem__, convert)
    )
    return iter(_loader(dataset, data))


def _loader(dataset: mx.gluon.data.Dataset, data: base.TrainingData, **options: int) -> Any:
    return mx.gluon.data.DataLoader(
        dataset,
        batch_sampler=[[indices] for indices in data.order],
        batchify_fn=unwrap_batch,
        **options,
    )


def unwrap_batch(items: list[Batch]) -> Batch:
    """Return the only item of a list, which is a whole batch."""
    (batch,) = items
    return batch


#: Images converted per chunk.
CONVERSION_CHUNK = 1000


def write_recordio(files: ImageFiles) -> Path:
    """Write the images as RecordIO next to their files, if that is missing; return the path.

    A record is MXNet's header and the bytes of an image, with the index of the image as its key.
    The images are not compressed, for the decoding would be another experiment.
    """
    target = files.paths[0].parent / f"train-{len(files)}.rec"
    if target.exists():
        return target
    temporary = target.with_name(f".{target.stem}.{os.getpid()}")
    index, records = (temporary.with_suffix(f".{end}") for end in ("idx", "rec"))
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(records), "w")
    for start in range(0, len(files), CONVERSION_CHUNK):
        indices = np.arange(start, min(start + CONVERSION_CHUNK, len(files)))
        for key, image in zip(indices.tolist(), files.read(indices), strict=True):
            header = mx.recordio.IRHeader(0, float(files.labels[key]), key, 0)
            writer.write_idx(key, mx.recordio.pack(header, image.tobytes()))
    writer.close()
    os.replace(index, target.with_suffix(".idx"))
    os.replace(records, target)
    return target


def open_records(path: Path, shape: tuple[int, ...]) -> ImageReader:
    """Return a function that reads images from a RecordIO file by their indices."""
    records = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")

    def read(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        images = np.empty((len(indices), *shape), np.uint8)
        for image, index in zip(images, indices, strict=True):
            _, content = mx.recordio.unpack(records.read_idx(int(index)))
            image[:] = np.frombuffer(content, np.uint8).reshape(shape)
        return images

    return read


def _file_batches(data: base.ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches of Gluon's DataLoader; those of worker processes are copied to this process."""
    files = data.files
    records = data.reader == "RecordIO"
    read = data.image_reader(open_records(write_recordio(files), files.shape) if records else None)
    options = {"num_workers": data.input.workers, "prefetch": data.input.prefetch}
    if data.reader == "gluon.DataLoader per image":
        loader = _single_image_loader(data, read, convert, **options)
    else:
        loader = _loader(ImageDataset(files.labels, read, convert), data, **options)
    for batch in loader:
        inputs, labels = (part.as_in_context(mx.cpu()) for part in batch)
        inputs.wait_to_read()  # otherwise copies and transforms would be part of the forward pass
        yield inputs, labels


def _single_image_loader(
    data: base.ImagesOnDisk, read: ImageReader, convert: Convert, **options: int
) -> Any:
    """Return Gluon's DataLoader with MXNet's own transforms and batches, as in its tutorials."""
    assert isinstance(convert, Normaliser), "files have images"
    dataset = SingleImageDataset(data.files.labels, read, convert.upscale)
    transform = image_transform(convert.normalisation)
    return mx.gluon.data.DataLoader(
        dataset.transform_first(transform), batch_sampler=data.order, **options
    )


def _epoch_batches(data: base.ImagesOnDisk, convert: Convert) -> Iterator[Batch]:
    """Read all images, arrange them in the order of an epoch, and iterate with NDArrayIter.

    NDArrayIter has its own random order or none, so it receives the examples in their order.
    """
    files = data.files
    images = files.read(np.arange(len(files)))
    batch_size = len(data.order[0])
    epoch_batches = max(1, len(files) // batch_size)
    for start in range(0, len(data.order), epoch_batches):
        indices = np.concatenate(data.order[start : start + epoch_batches])
        iterator: Any = mx.io.NDArrayIter(
            mx.nd.array(images[indices], dtype="uint8"),
            to_index_tensor(files.labels[indices]),
            batch_size=batch_size,
        )
        if data.input.prefetch:
            iterator = mx.io.PrefetchingIter(iterator)
        for batch in iterator:
            yield convert(batch.data[0].asnumpy()), batch.label[0]
