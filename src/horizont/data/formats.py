"""The reader of the CIFAR archives (python version)."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from horizont.data.archives import UNPICKLING_ERRORS, ByteArray, load_restricted_pickle
from horizont.data.catalogue import DatasetInfo
from horizont.data.prepared import Array, DatasetArrays
from horizont.errors import UserError

CifarBatch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def label_key(info: DatasetInfo) -> bytes:
    """Return the name of the labels inside a batch: CIFAR-100 has fine and coarse ones."""
    return b"labels" if info.classes == 10 else b"fine_labels"


def read_cifar(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
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
    for split, names in info.split_files.items():
        batches = [_read_cifar_batch(info, name, files[name]) for name in names]
        arrays[f"{split}_images"] = np.concatenate([images for images, _ in batches])
        arrays[f"{split}_labels"] = np.concatenate([labels for _, labels in batches])
    return DatasetArrays(arrays)


def _read_cifar_batch(info: DatasetInfo, name: str, content: bytes) -> CifarBatch:
    try:
        return _parse_cifar_batch(info, content)
    except UNPICKLING_ERRORS as error:
        raise UserError(name, f"refused: {error}", "a batch of the official archive") from error


def find_pixel_offset(
    info: DatasetInfo, name: str, content: bytes
) -> tuple[int, NDArray[np.int64]]:
    """Find where the pixels of a batch begin inside its file, and read its labels.

    The pixels lie there as one string of bytes, an image after the other.

    Raises
    ------
    UserError
        If the file is no batch, or its pixels lie in another order.
    """
    images, labels = _read_cifar_batch(info, name, content)
    place = content.find(images.tobytes())
    if place < 0:
        raise UserError(name, "pixels in another order", "an image after the other")
    return place, labels


def _parse_cifar_batch(info: DatasetInfo, content: bytes) -> CifarBatch:
    batch = load_restricted_pickle(content)
    if not isinstance(batch, dict):
        raise TypeError(f"a {type(batch).__name__} in place of a dictionary")
    data, labels = batch[b"data"], batch[label_key(info)]
    if not isinstance(data, ByteArray) or not isinstance(labels, list):
        raise TypeError("data or labels of the wrong kind")
    if not all(type(label) is int for label in labels):
        raise TypeError("labels that are not whole numbers")
    images = data.pixels().reshape(len(labels), *info.shape)
    return images, np.array(labels, np.int64)


IDX_UNSIGNED_BYTE = 8


def read_idx(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
    """Turn unpacked IDX files into arrays; ``info.parts`` has images and labels of each split.

    Raises
    ------
    UserError
        If a file has another type or number of axes, or is shorter or longer than it says.
    """
    arrays: dict[str, Array] = {}
    for split, (images, labels) in info.split_files.items():
        pixels = parse_idx(images, files[images], axes=3)
        arrays[f"{split}_images"] = pixels[:, None]
        arrays[f"{split}_labels"] = parse_idx(labels, files[labels], axes=1).astype(np.int64)
    return DatasetArrays(arrays)


def parse_idx(name: str, content: bytes, axes: int) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes with this number of axes."""
    magic = bytes([0, 0, IDX_UNSIGNED_BYTE, axes])
    start = 4 + 4 * axes
    if content[:4] != magic or len(content) < start:
        raise UserError(name, f"begins with {content[:4].hex()}", f"IDX, {magic.hex()}")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        found = f"{len(content) - start} bytes of content"
        raise UserError(name, found, f"{math.prod(shape)} bytes, as its header says")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


SENTENCE_END = "<eos>"


def read_ptb(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
    """Turn the text files into word numbers.

    Words are numbered by falling frequency in the training text, equal ones in alphabetical
    order; every line end becomes the word ``<eos>``.

    Raises
    ------
    UserError
        If a file is no UTF-8, or has a word that the training text lacks.
    """
    words = {
        split: _split_words(names[0], files[names[0]]) for split, names in info.split_files.items()
    }
    counts = Counter(words["train"])
    vocabulary = tuple(sorted(counts, key=lambda word: (-counts[word], word)))
    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokens = {
        f"{split}_tokens": _encode_words(info.split_files[split][0], text, numbers)
        for split, text in words.items()
    }
    return DatasetArrays(tokens, vocabulary)


def _split_words(name: str, content: bytes) -> list[str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(name, f"damaged: {error}", "text in UTF-8") from error
    return text.replace("\n", f" {SENTENCE_END} ").split()


def _encode_words(name: str, words: list[str], numbers: Mapping[str, int]) -> NDArray[np.int32]:
    try:
        return np.fromiter((numbers[word] for word in words), np.int32, len(words))
    except KeyError as error:
        raise UserError(name, error.args[0], "the words of the training text") from error
