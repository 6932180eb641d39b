"""The official formats of the data sets: CIFAR (python version), IDX and Penn Treebank.

Penn Treebank is in the form of T. Mikolov: a sentence per line, words separated by blanks.

They can be written, too: with archives of synthetic content the readers can be tested without
network, and input pipelines can read stand-ins from files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import pickle
import struct
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horizont.data.archives import UNPICKLING_ERRORS, ByteArray, load_restricted_pickle, md5_of
from horizont.data.catalogue import DatasetInfo, RawFile
from horizont.data.prepared import Array, DatasetArrays
from horizont.errors import Problem, UserError

IDX_UNSIGNED_BYTE = 8
SENTENCE_END = "<eos>"
#: The lowest protocol in which Python 3 writes bytes as they are; in protocol 2, that of the
#: official files, it encodes them as text, and images could not be read at an offset.
_PICKLE_PROTOCOL = 3


def read_dataset(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
    """Convert the unpacked files of a data set, by path inside the archives, to arrays.

    A file that is damaged, in another format, or that would execute code is refused.
    """
    return _READERS[info.format](info, files)


def _label_key(info: DatasetInfo) -> bytes:
    """Return the name of the labels in a batch: CIFAR-100 has fine and coarse ones."""
    return b"labels" if info.classes == 10 else b"fine_labels"


def _read_cifar(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
    arrays: dict[str, Array] = {}
    for split, names in info.split_files.items():
        batches = [_read_cifar_batch(info, name, files[name]) for name in names]
        arrays[f"{split}_images"] = np.concatenate([images for images, _ in batches])
        arrays[f"{split}_labels"] = np.concatenate([labels for _, labels in batches])
    return DatasetArrays(arrays)


def _read_cifar_batch(
    info: DatasetInfo, name: str, content: bytes
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        batch = load_restricted_pickle(content)
        if not isinstance(batch, dict):
            raise TypeError(f"a {type(batch).__name__} in place of a dictionary")
        data, labels = batch[b"data"], batch[_label_key(info)]
        if not isinstance(data, ByteArray) or not isinstance(labels, list):
            raise TypeError("data or labels of the wrong type")
        if not all(type(label) is int for label in labels):
            raise TypeError("labels that are not integers")
        images = data.pixels().reshape(len(labels), *info.shape)
        return images, np.array(labels, np.int64)
    except UNPICKLING_ERRORS as error:
        raise UserError(
            name, Problem(f"refused: {error}"), "a batch of the official archive"
        ) from error


def find_pixel_offset(
    info: DatasetInfo, name: str, content: bytes
) -> tuple[int, NDArray[np.int64]]:
    """Find the offset of the pixels in a CIFAR batch, one image after the other, and its labels."""
    images, labels = _read_cifar_batch(info, name, content)
    offset = content.find(images.tobytes())
    if offset < 0:
        raise UserError(name, Problem("pixels in another order"), "one image after the other")
    return offset, labels


def cifar_batch(
    info: DatasetInfo, title: str, images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> bytes:
    """Return a CIFAR batch file of images, shape (N, channels, height, width), and labels."""
    numbers = [int(label) for label in labels]
    batch = {
        b"batch_label": title.encode(),
        _label_key(info): numbers,
        b"data": images.reshape(len(images), -1),
        b"filenames": [f"image_{index:05d}.png".encode() for index in range(len(numbers))],
    }
    if info.classes != 10:
        batch[b"coarse_labels"] = [number // 5 for number in numbers]
    return pickle.dumps(batch, _PICKLE_PROTOCOL)


def _read_idx(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
    arrays: dict[str, Array] = {}
    for split, (images, labels) in info.split_files.items():
        arrays[f"{split}_images"] = parse_idx(images, files[images], axes=3)[:, None]
        arrays[f"{split}_labels"] = parse_idx(labels, files[labels], axes=1).astype(np.int64)
    return DatasetArrays(arrays)


def parse_idx(name: str, content: bytes, axes: int) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes with this number of axes.

    An IDX file is two zero bytes, one for the type (8: unsigned byte), one for the number of
    axes, a big-endian 32-bit length for each axis, and the content in row-major order.
    """
    magic = bytes([0, 0, IDX_UNSIGNED_BYTE, axes])
    start = 4 + 4 * axes
    if content[:4] != magic or len(content) < start:
        raise UserError(name, Problem(f"begins with {content[:4].hex()}"), f"IDX, {magic.hex()}")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        actual = f"{len(content) - start} bytes of content"
        raise UserError(name, actual, f"{math.prod(shape)} bytes, as its header says")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Return an IDX file of an array of unsigned bytes."""
    header = bytes([0, 0, IDX_UNSIGNED_BYTE, array.ndim])
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def _read_ptb(info: DatasetInfo, files: Mapping[str, bytes]) -> DatasetArrays:
    """Convert text files to word numbers.

    Words are numbered by falling frequency in the training text, equally frequent ones in
    alphabetical order; every line end becomes the word ``<eos>``.
    """
    words = {}
    for split, (name,) in info.split_files.items():
        try:
            text = files[name].decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(name, Problem(f"damaged: {error}"), "text in UTF-8") from error
        words[split] = text.replace("\n", f" {SENTENCE_END} ").split()
    counts = Counter(words["train"])
    vocabulary = tuple(sorted(counts, key=lambda word: (-counts[word], word)))
    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokens = {}
    for split, (name,) in info.split_files.items():
        if unknown := [word for word in words[split] if word not in numbers]:
            raise UserError(name, unknown[0], "the words of the training text")
        tokens[f"{split}_tokens"] = np.array([numbers[word] for word in words[split]], np.int32)
    return DatasetArrays(tokens, vocabulary)


_READERS: dict[str, Callable[[DatasetInfo, Mapping[str, bytes]], DatasetArrays]] = {
    "cifar": _read_cifar,
    "idx": _read_idx,
    "ptb": _read_ptb,
}


def write_archives(info: DatasetInfo, content: DatasetArrays, folder: Path) -> DatasetInfo:
    """Write archives with this content; return a catalogue entry that describes them."""
    folder.mkdir(parents=True, exist_ok=True)
    members = archive_members(info, content)
    if info.format == "idx":
        for file, unpacked in zip(info.files, members.values(), strict=True):
            (folder / file.name).write_bytes(gzip.compress(unpacked, mtime=0))
    else:
        write_tar(folder / info.files[0].name, members)
    paths = [folder / file.name for file in info.files]
    return replace(
        info,
        classes=len(content.vocabulary) if content.vocabulary else info.classes,
        splits=content.split_sizes(),
        files=tuple(
            RawFile(file.name, md5_of(path), path.stat().st_size, file.url)
            for file, path in zip(info.files, paths, strict=True)
        ),
        file_md5={
            name: hashlib.md5(data, usedforsecurity=False).hexdigest()
            for name, data in members.items()
        },
    )


def archive_members(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    """Return the files in the archives of a data set with this content, by path inside them."""
    return _MEMBER_WRITERS[info.format](info, content)


def write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a tar.gz with these members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def _cifar_members(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    files = {}
    for split, names in info.split_files.items():
        images, labels = content.arrays[f"{split}_images"], content.arrays[f"{split}_labels"]
        parts = np.array_split(np.arange(len(labels)), len(names))
        for number, (name, part) in enumerate(zip(names, parts, strict=True), 1):
            title = f"{split} batch {number} of {len(names)}"
            files[name] = cifar_batch(info, title, images[part], labels[part])
    return files


def _idx_members(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    files = {}
    for split, (images, labels) in info.split_files.items():
        files[images] = idx_bytes(content.arrays[f"{split}_images"][:, 0])
        files[labels] = idx_bytes(content.arrays[f"{split}_labels"].astype(np.uint8))
    return files


def _ptb_members(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    words = content.vocabulary or ()
    files = {}
    for split, (name,) in info.split_files.items():
        text = " ".join(words[token] for token in content.arrays[f"{split}_tokens"])
        files[name] = text.replace(SENTENCE_END, "\n").encode()
    return files


_MEMBER_WRITERS = {"cifar": _cifar_members, "idx": _idx_members, "ptb": _ptb_members}
