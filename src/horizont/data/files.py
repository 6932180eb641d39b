"""Random access to single images in files of the official formats, and a cache of them.

The archives are compressed as a whole, so that no single example can be read from them. In the
unpacked files the images have equal length and follow each other: in the batches of CIFAR
(python version) inside a pickle, in an IDX file after its header.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo, dataset_info, describe_own
from horizont.data.formats import archive_members, find_pixel_offset, parse_idx
from horizont.data.prepared import DatasetArrays, DatasetDescription, ImageData, atomic_folder
from horizont.errors import Problem, UserError

#: Reads images by their indices: uint8, shape (images, channels, height, width).
ImageReader = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


class DecodedImageCache:
    """A cache of `count` images of a shape (channels, height, width), read at their first use.

    The array for all of them is allocated at once; the operating system commits the memory of a
    page when it is first written.
    """

    def __init__(self, count: int, shape: tuple[int, ...], read: ImageReader) -> None:
        self._images = np.empty((count, *shape), np.uint8)
        self._is_cached = np.zeros(count, bool)
        self._read = read

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return some images."""
        missing = indices[~self._is_cached[indices]]
        if len(missing):
            self._images[missing] = self._read(missing)
            self._is_cached[missing] = True
        return self._images[indices]


#: Holds the hashes of the arrays that the files were written from.
SOURCE_HASH_FILE = "source_hashes.txt"


@dataclass(frozen=True)
class FileSegment:
    """`count` consecutive images in a file of `file_bytes`, from `offset` (in bytes) on."""

    path: Path
    offset: int
    count: int
    file_bytes: int


@dataclass(frozen=True)
class ImageFiles:
    """The training images of a set in files, and their labels (int64) in memory.

    `shape` is (channels, height, width) of an image.
    """

    shape: tuple[int, ...]
    segments: tuple[FileSegment, ...]
    labels: NDArray[np.int64]
    _descriptors: dict[Path, int] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.labels)

    @property
    def image_bytes(self) -> int:
        """Size of an image."""
        return math.prod(self.shape)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [segment.path for segment in self.segments]

    @cached_property
    def _first_indices(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(segment.count for segment in self.segments)])

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read images, (examples, channels, height, width), each by a system call of its own."""
        indices = np.asarray(indices)
        images = np.empty((len(indices), *self.shape), np.uint8)
        numbers = np.searchsorted(self._first_indices, indices, side="right") - 1
        for image, index, number in zip(images, indices, numbers, strict=True):
            segment = self.segments[number]
            inside = int(index - self._first_indices[number])
            offset = segment.offset + inside * self.image_bytes
            size = os.preadv(self._descriptor(segment.path), [image.data], offset)
            if size != self.image_bytes:
                raise UserError(
                    str(segment.path), Problem("truncated"), "a file that does not change"
                )
        return images

    def first(self, count: int) -> ImageFiles:
        """Return the first images only."""
        starts = self._first_indices.tolist()
        segments = [
            replace(segment, count=min(segment.count, count - start))
            for segment, start in zip(self.segments, starts, strict=False)
            if start < count
        ]
        return ImageFiles(self.shape, tuple(segments), self.labels[:count])

    def _descriptor(self, path: Path) -> int:
        """Open a file once; a process that is forked later can use the same descriptor."""
        if path not in self._descriptors:
            self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptors[path]


def write_files_if_missing(data: ImageData, folder: Path) -> Path:
    """Write the training examples of a set in its official format, unless the folder has them.

    The files are those of the official archives, with the prepared examples.
    """
    info, content_hash = _info(data.description), _content_hash(data.description)
    hash_file = folder / SOURCE_HASH_FILE
    if not hash_file.is_file() or hash_file.read_text() != content_hash:
        train_only = replace(info, split_files={"train": info.split_files["train"]})
        content = DatasetArrays(
            {"train_images": data.train_images, "train_labels": data.train_labels}
        )
        with atomic_folder(folder) as temporary:
            for name, packed in archive_members(train_only, content).items():
                (temporary / PurePosixPath(name).name).write_bytes(packed)
            (temporary / SOURCE_HASH_FILE).write_text(content_hash)
    return folder


def open_files(description: DatasetDescription, folder: Path) -> ImageFiles:
    """Find the images in the files of a folder; refuse a missing file and another format."""
    info = _info(description)
    paths = [folder / PurePosixPath(name).name for name in info.split_files["train"]]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(str(missing[0]), Problem("missing"), "a file in the official format")
    if info.format == "idx":
        image_file, label_file = paths
        content = image_file.read_bytes()
        pixels = parse_idx(str(image_file), content, axes=3)
        labels = parse_idx(str(label_file), label_file.read_bytes(), axes=1).astype(np.int64)
        offset = len(content) - pixels.nbytes
        segment = FileSegment(image_file, offset, len(pixels), len(content))
        return ImageFiles(description.shape, (segment,), labels)
    segments, batches = [], []
    for path in paths:
        content = path.read_bytes()
        offset, labels = find_pixel_offset(info, str(path), content)
        segments.append(FileSegment(path, offset, len(labels), len(content)))
        batches.append(labels)
    return ImageFiles(description.shape, tuple(segments), np.concatenate(batches))


def _info(description: DatasetDescription) -> DatasetInfo:
    if description.source != "own":
        return dataset_info(description.name)
    return describe_own(
        description.name, description.shape, description.classes, description.splits
    )


def _content_hash(description: DatasetDescription) -> str:
    return "\n".join(description.sha256[f"train_{part}"] for part in ("images", "labels")) + "\n"
