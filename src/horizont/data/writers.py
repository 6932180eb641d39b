"""Writing data sets in their official formats.

For whole archives of synthetic content: with them the readers can be tried where there is no
network, on files that differ from the official ones only in content and size.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horizont.data.catalogue import DatasetInfo, RawFile
from horizont.data.formats import SENTENCE_END
from horizont.data.prepared import DatasetArrays
from horizont.data.python2_pickle import cifar_batch
from horizont.data.sources import md5_of


def write_archives(info: DatasetInfo, content: DatasetArrays, folder: Path) -> DatasetInfo:
    """Write the archives of a set with this content.

    Parameters
    ----------
    info
        Gives format and file names.
    content
        What to write; its sizes may differ from the catalogue's.
    folder
        Where to; made if need be.

    Returns
    -------
    DatasetInfo
        The entry that a catalogue would have for what was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = _MEMBER_WRITERS[info.format](info, content)
    if info.format == "idx":
        for file, unpacked in zip(info.files, files.values(), strict=True):
            (folder / file.name).write_bytes(gzip.compress(unpacked, mtime=0))
    else:
        write_tar(folder / info.files[0].name, files)
    return _catalogue_entry(info, content, files, folder)


def archive_members(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    """Return what the archives of a set with this content would hold, by path inside them."""
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


def _catalogue_entry(
    info: DatasetInfo, content: DatasetArrays, files: Mapping[str, bytes], folder: Path
) -> DatasetInfo:
    paths = [folder / file.name for file in info.files]
    raw = [
        RawFile(file.name, md5_of(path), path.stat().st_size, file.url)
        for file, path in zip(info.files, paths, strict=True)
    ]
    sums = {name: hashlib.md5(data, usedforsecurity=False) for name, data in files.items()}
    return replace(
        info,
        classes=len(content.vocabulary) if content.vocabulary else info.classes,
        splits={split: _count_examples(content, split) for split in info.splits},
        files=tuple(raw),
        file_md5={name: digest.hexdigest() for name, digest in sums.items()},
    )


def _count_examples(content: DatasetArrays, split: str) -> int:
    sizes = (len(array) for name, array in content.arrays.items() if name.startswith(split))
    return next(sizes)


def _cifar_files(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    files = {}
    for split, names in info.split_files.items():
        images, labels = content.arrays[f"{split}_images"], content.arrays[f"{split}_labels"]
        places = np.array_split(np.arange(len(labels)), len(names))
        for number, (name, place) in enumerate(zip(names, places, strict=True), 1):
            title = f"{split} batch {number} of {len(names)}"
            files[name] = cifar_batch(info, title, images[place], labels[place])
    return files


def _idx_files(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    files = {}
    for split, (images, labels) in info.split_files.items():
        files[images] = idx_bytes(content.arrays[f"{split}_images"][:, 0])
        files[labels] = idx_bytes(content.arrays[f"{split}_labels"].astype(np.uint8))
    return files


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Return an array of unsigned bytes as an IDX file."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def _ptb_files(info: DatasetInfo, content: DatasetArrays) -> dict[str, bytes]:
    words = content.vocabulary or ()
    files = {}
    for split, (name,) in info.split_files.items():
        text = " ".join(words[token] for token in content.arrays[f"{split}_tokens"])
        files[name] = text.replace(SENTENCE_END, "\n").encode()
    return files


_MEMBER_WRITERS = {"cifar": _cifar_files, "idx": _idx_files, "ptb": _ptb_files}
