"""The reader of the CIFAR archives (python version)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo
from horizont.data.content import Array, Content
from horizont.data.pickles import DAMAGE, ByteArray, load_pickle
from horizont.errors import UserError

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def label_key(info: DatasetInfo) -> bytes:
    """Return the name of the labels inside a batch: CIFAR-100 has fine and coarse ones."""
    return b"labels" if info.classes == 10 else b"fine_labels"


def read_cifar(info: DatasetInfo, files: Mapping[str, bytes]) -> Content:
    """Turn unpacked batches into arrays.

    Parameters
    ----------
    info
        The catalogue's entry.
    files
        Bytes of every unpacked file that ``info.parts`` names.

    Raises
    ------
    UserError
        If a batch is damaged, is no batch, or wants to run something.
    """
    arrays: dict[str, Array] = {}
    for split, names in info.parts.items():
        batches = [_read_batch(info, name, files[name]) for name in names]
        arrays[f"{split}_images"] = np.concatenate([images for images, _ in batches])
        arrays[f"{split}_labels"] = np.concatenate([labels for _, labels in batches])
    return Content(arrays)


def _read_batch(info: DatasetInfo, name: str, content: bytes) -> Batch:
    try:
        return _open_batch(info, content)
    except DAMAGE as error:
        raise UserError(name, f"refused: {error}", "a batch of the official archive") from error


def find_pixels(info: DatasetInfo, name: str, content: bytes) -> tuple[int, NDArray[np.int64]]:
    """Find where the pixels of a batch begin inside its file, and read its labels.

    The pixels lie there as one string of bytes, an image after the other.

    Raises
    ------
    UserError
        If the file is no batch, or its pixels lie in another order.
    """
    images, labels = _read_batch(info, name, content)
    place = content.find(images.tobytes())
    if place < 0:
        raise UserError(name, "pixels in another order", "an image after the other")
    return place, labels


def _open_batch(info: DatasetInfo, content: bytes) -> Batch:
    batch = load_pickle(content)
    if not isinstance(batch, dict):
        raise TypeError(f"a {type(batch).__name__} in place of a dictionary")
    data, labels = batch[b"data"], batch[label_key(info)]
    if not isinstance(data, ByteArray) or not isinstance(labels, list):
        raise TypeError("data or labels of the wrong kind")
    if not all(type(label) is int for label in labels):
        raise TypeError("labels that are not whole numbers")
    images = data.pixels().reshape(len(labels), *info.shape)
    return images, np.array(labels, np.int64)
