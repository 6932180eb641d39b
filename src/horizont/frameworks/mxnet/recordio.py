"""A copy of the examples in MXNet's own format, written and read by MXNet."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from horizont.data.files import ImageFiles
from horizont.data.kept import Read
from horizont.frameworks.mxnet.compat import mx

#: Images that are converted at once.
CHUNK = 1000


def converted(files: ImageFiles) -> Path:
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
    for first in range(0, len(files), CHUNK):
        numbers = np.arange(first, min(first + CHUNK, len(files)))
        for number, image in zip(numbers, files.read(numbers), strict=True):
            header = mx.recordio.IRHeader(0, float(files.labels[number]), int(number), 0)
            writer.write_idx(int(number), mx.recordio.pack(header, image.tobytes()))
    writer.close()
    os.replace(index, target.with_suffix(".idx"))
    os.replace(records, target)
    return target


def open_records(path: Path, shape: tuple[int, ...]) -> Read:
    """Make the function that reads images from a RecordIO file by their numbers."""
    records = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")

    def read(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        images = np.empty((len(indices), *shape), np.uint8)
        for image, number in zip(images, indices, strict=True):
            _, content = mx.recordio.unpack(records.read_idx(int(number)))
            image[:] = np.frombuffer(content, np.uint8).reshape(shape)
        return images

    return read
