"""MXNet's input pipelines from files: Gluon's DataLoader, RecordIO and NDArrayIter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from horizont.data.files import ImageFiles
from horizont.data.kept import KeptImages, Read
from horizont.frameworks.base import OnDisk, when_asked
from horizont.frameworks.mxnet.compat import mx
from horizont.frameworks.mxnet.input import Batch, Convert, numbers, only
from horizont.frameworks.mxnet.recordio import converted, open_records


class FileDataset(mx.gluon.data.Dataset):  # type: ignore[misc]
    """Images in files; an item is the batch of the given indices, read and normalised."""

    def __init__(self, labels: npt.NDArray[np.int64], read: Read, convert: Convert) -> None:
        self.labels = labels
        self.read = read
        self.convert = convert

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitem__(self, indices: npt.NDArray[np.int64]) -> Batch:
        """Fetch a batch at once."""
        return self.convert(self.read(indices)), numbers(self.labels[indices])


def batches(examples: OnDisk, convert: Convert) -> Iterator[Batch]:
    """Yield batches in the given order.

    Loader processes start when the first batch is asked for. They leave when this is closed.
    """
    if examples.reader == "NDArrayIter":
        return whole_epochs(examples, convert)
    files, given = examples.files, examples.input
    read: Read = files.read
    if examples.reader == "RecordIO":
        read = open_records(converted(files), files.shape)
    if given.cache:
        read = KeptImages(len(files), files.shape, read)
    return when_asked(loaded(FileDataset(files.labels, read, convert), examples))


def loaded(dataset: FileDataset, examples: OnDisk) -> Iterator[Batch]:
    """Read by Gluon's loader; what comes from another process is moved into memory of our own."""
    given = examples.input
    loader = mx.gluon.data.DataLoader(
        dataset,
        batch_sampler=[[indices] for indices in examples.order],
        batchify_fn=only,
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


def whole_epochs(examples: OnDisk, convert: Convert) -> Iterator[Batch]:
    """Read everything, put it in the order of an epoch, and let NDArrayIter deal it out.

    NDArrayIter has its own random order or none, so it is given the examples in order already.
    """
    files = examples.files
    images = files.read(np.arange(len(files)))
    order = [np.asarray(indices) for indices in examples.order]
    length = max(1, len(files) // len(order[0]))
    for first in range(0, len(order), length):
        yield from _dealt(images, files, order[first : first + length], examples, convert)


def _dealt(
    images: npt.NDArray[np.uint8],
    files: ImageFiles,
    order: list[npt.NDArray[np.int64]],
    examples: OnDisk,
    convert: Convert,
) -> Iterator[Batch]:
    indices = np.concatenate(order)
    dealt: Any = mx.io.NDArrayIter(
        mx.nd.array(images[indices], dtype="uint8"),
        numbers(files.labels[indices]),
        batch_size=len(order[0]),
    )
    if examples.input.prefetch:
        dealt = mx.io.PrefetchingIter(dealt)
    for batch in dealt:
        yield convert(batch.data[0].asnumpy()), batch.label[0]
