"""A cache of our own: images that were read once stay in memory, decoded."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo, dataset_info
from horizont.data.formats import find_pixel_offset, parse_idx
from horizont.data.prepared import DatasetArrays, DatasetDescription, ImageData, atomic_folder
from horizont.data.writers import archive_members
from horizont.errors import UserError

#: From numbers of images to uint8 (images, channels, height, width).
ImageReader = Callable[[NDArray[np.int64]], NDArray[np.uint8]]


class DecodedImageCache:
    """Images that are read when they are asked for the first time.

    The room for all of them is reserved at once; the system gives memory to what is written.

    Parameters
    ----------
    count
        How many images there are.
    shape
        (channels, height, width) of an image.
    read
        Reads those that are not there yet.
    """

    def __init__(self, count: int, shape: tuple[int, ...], read: ImageReader) -> None:
        self._images = np.empty((count, *shape), np.uint8)
        self._is_cached = np.zeros(count, bool)
        self._read = read

    def __call__(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Fetch some images."""
        missing = indices[~self._is_cached[indices]]
        if len(missing):
            self._images[missing] = self._read(missing)
            self._is_cached[missing] = True
        return self._images[indices]


#: Names the content that the files were written from.
SOURCE_HASH_FILE = "content.txt"


@dataclass(frozen=True)
class FileSegment:
    """Images that lie one after the other in a file.

    Attributes
    ----------
    begin
        Bytes of the file before the first of them.
    size
        Bytes of the whole file.
    """

    path: Path
    offset: int
    count: int
    file_bytes: int


@dataclass(frozen=True)
class ImageFiles:
    """The training images of a set, on disk, and their labels, which are few bytes, in memory.

    Attributes
    ----------
    shape
        (channels, height, width) of an image.
    labels
        int64, (examples,).
    """

    shape: tuple[int, ...]
    segments: tuple[FileSegment, ...]
    labels: NDArray[np.int64]
    _descriptors: dict[Path, int] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    @property
    def image_bytes(self) -> int:
        """Bytes of an image."""
        return math.prod(self.shape)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [stretch.path for stretch in self.segments]

    @cached_property
    def _first_indices(self) -> NDArray[np.int64]:
        counts = [stretch.count for stretch in self.segments]
        return np.cumsum([0, *counts])

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read some images, each by a call of its own.

        Returns
        -------
        ndarray of uint8, (examples, channels, height, width)
        """
        chosen = np.asarray(indices)
        images = np.empty((len(chosen), *self.shape), np.uint8)
        parts = np.searchsorted(self._first_indices, chosen, side="right") - 1
        for image, index, part in zip(images, chosen, parts, strict=True):
            stretch = self.segments[part]
            place = stretch.begin + int(index - self._first_indices[part]) * self.image_bytes
            got = os.preadv(self._descriptor(stretch.path), [image.data], place)
            if got != self.image_bytes:
                raise UserError(str(stretch.path), "shorter than it was", "a file left alone")
        return images

    def _descriptor(self, path: Path) -> int:
        """Open a file once; a process that is forked later may read by the same number."""
        if path not in self._descriptors:
            self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptors[path]


def write_files_if_missing(data: ImageData, folder: Path) -> Path:
    """Make a folder hold a set's training examples in their official format, or find it so.

    The files are what the official archives would hold for the prepared examples: of a real set
    the same pixels and labels at the same places, of a stand-in its own.
    """
    about, info = data.description, dataset_info(data.description.name)
    if not (folder / SOURCE_HASH_FILE).is_file() or (
        folder / SOURCE_HASH_FILE
    ).read_text() != _content_hash(about):
        content = DatasetArrays(
            {"train_images": data.train_images, "train_labels": data.train_labels}
        )
        with atomic_folder(folder) as temporary:
            for name, packed in archive_members(_train_split_info(info), content).items():
                (temporary / PurePosixPath(name).name).write_bytes(packed)
            (temporary / SOURCE_HASH_FILE).write_text(_content_hash(about))
    return folder


def open_files(description: DatasetDescription, folder: Path) -> ImageFiles:
    """Find the images inside the files of a folder.

    Raises
    ------
    UserError
        If a file is missing or is not in the official format.
    """
    info = dataset_info(description.name)
    paths = [folder / PurePosixPath(name).name for name in info.split_files["train"]]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(str(missing[0]), "missing", "a file in the official format")
    find = _idx_segments if info.format == "idx" else _cifar_segments
    stretches, labels = find(info, paths)
    return ImageFiles(description.shape, tuple(stretches), labels)


def _content_hash(description: DatasetDescription) -> str:
    return "\n".join(description.sha256[f"train_{part}"] for part in ("images", "labels")) + "\n"


def _train_split_info(info: DatasetInfo) -> DatasetInfo:
    return replace(info, split_files={"train": info.split_files["train"]})


def _cifar_segments(
    info: DatasetInfo, paths: Sequence[Path]
) -> tuple[list[FileSegment], NDArray[np.int64]]:
    stretches, labels = [], []
    for path in paths:
        content = path.read_bytes()
        begin, own = find_pixel_offset(info, str(path), content)
        stretches.append(FileSegment(path, begin, len(own), len(content)))
        labels.append(own)
    return stretches, np.concatenate(labels)


def _idx_segments(
    info: DatasetInfo, paths: Sequence[Path]
) -> tuple[list[FileSegment], NDArray[np.int64]]:
    images, named = paths
    pixels = parse_idx(str(images), content := images.read_bytes(), axes=3)
    labels = parse_idx(str(named), named.read_bytes(), axes=1).astype(np.int64)
    begin = len(content) - pixels.nbytes
    return [FileSegment(images, begin, len(pixels), len(content))], labels
