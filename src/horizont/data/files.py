"""Images read one by one from files in the format of their official archives, unpacked.

The archives themselves are compressed as a whole, so that no single example can be read from
them. Inside the unpacked files the images lie one after the other, each with the same length: in
the batches of CIFAR (python version) inside a pickle, in an IDX file behind its header.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from horizont.data.about import About
from horizont.data.canonical import ImageData
from horizont.data.catalogue import DatasetInfo, dataset_info
from horizont.data.cifar import find_pixels
from horizont.data.content import Content
from horizont.data.folders import whole_folder
from horizont.data.idx import parse_idx
from horizont.data.official import unpacked_files
from horizont.errors import UserError

#: Names the content that the files were written from.
MARKER = "content.txt"


@dataclass(frozen=True)
class Stretch:
    """Images that lie one after the other in a file.

    Attributes
    ----------
    begin
        Bytes of the file before the first of them.
    size
        Bytes of the whole file.
    """

    path: Path
    begin: int
    count: int
    size: int


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
    stretches: tuple[Stretch, ...]
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
        return [stretch.path for stretch in self.stretches]

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        counts = [stretch.count for stretch in self.stretches]
        return np.cumsum([0, *counts])

    def read(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read some images, each by a call of its own.

        Returns
        -------
        ndarray of uint8, (examples, channels, height, width)
        """
        chosen = np.asarray(indices)
        images = np.empty((len(chosen), *self.shape), np.uint8)
        parts = np.searchsorted(self._firsts, chosen, side="right") - 1
        for image, index, part in zip(images, chosen, parts, strict=True):
            stretch = self.stretches[part]
            place = stretch.begin + int(index - self._firsts[part]) * self.image_bytes
            got = os.preadv(self._descriptor(stretch.path), [image.data], place)
            if got != self.image_bytes:
                raise UserError(str(stretch.path), "shorter than it was", "a file left alone")
        return images

    def _descriptor(self, path: Path) -> int:
        """Open a file once; a process that is forked later may read by the same number."""
        if path not in self._descriptors:
            self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptors[path]


def ensure_files(data: ImageData, folder: Path) -> Path:
    """Make a folder hold a set's training examples in their official format, or find it so.

    The files are what the official archives would hold for the prepared examples: of a real set
    the same pixels and labels at the same places, of a stand-in its own.
    """
    about, info = data.about, dataset_info(data.about.name)
    if not (folder / MARKER).is_file() or (folder / MARKER).read_text() != _identity(about):
        content = Content({"train_images": data.train_images, "train_labels": data.train_labels})
        with whole_folder(folder) as temporary:
            for name, packed in unpacked_files(_train_only(info), content).items():
                (temporary / PurePosixPath(name).name).write_bytes(packed)
            (temporary / MARKER).write_text(_identity(about))
    return folder


def open_files(about: About, folder: Path) -> ImageFiles:
    """Find the images inside the files of a folder.

    Raises
    ------
    UserError
        If a file is missing or is not in the official format.
    """
    info = dataset_info(about.name)
    paths = [folder / PurePosixPath(name).name for name in info.parts["train"]]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(str(missing[0]), "missing", "a file in the official format")
    find = _idx_stretches if info.format == "idx" else _cifar_stretches
    stretches, labels = find(info, paths)
    return ImageFiles(about.shape, tuple(stretches), labels)


def _identity(about: About) -> str:
    return "\n".join(about.sha256[f"train_{part}"] for part in ("images", "labels")) + "\n"


def _train_only(info: DatasetInfo) -> DatasetInfo:
    return replace(info, parts={"train": info.parts["train"]})


def _cifar_stretches(
    info: DatasetInfo, paths: Sequence[Path]
) -> tuple[list[Stretch], NDArray[np.int64]]:
    stretches, labels = [], []
    for path in paths:
        content = path.read_bytes()
        begin, own = find_pixels(info, str(path), content)
        stretches.append(Stretch(path, begin, len(own), len(content)))
        labels.append(own)
    return stretches, np.concatenate(labels)


def _idx_stretches(
    info: DatasetInfo, paths: Sequence[Path]
) -> tuple[list[Stretch], NDArray[np.int64]]:
    images, named = paths
    pixels = parse_idx(str(images), content := images.read_bytes(), axes=3)
    labels = parse_idx(str(named), named.read_bytes(), axes=1).astype(np.int64)
    begin = len(content) - pixels.nbytes
    return [Stretch(images, begin, len(pixels), len(content))], labels
