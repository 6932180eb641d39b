"""From a folder with raw files to the checked content of a data set.

A set may lie in a folder as its official archives or already unpacked; either way every unpacked
file is compared with the catalogue's checksum before a reader looks at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from horizont.data.archives import read_gzip, read_plain, read_tar
from horizont.data.catalogue import DatasetInfo
from horizont.data.cifar import read_cifar
from horizont.data.content import Content, check_content
from horizont.data.idx import read_idx
from horizont.data.ptb import read_ptb
from horizont.errors import UserError

_READERS: dict[str, Callable[[DatasetInfo, Mapping[str, bytes]], Content]] = {
    "cifar": read_cifar,
    "idx": read_idx,
    "ptb": read_ptb,
}


def holds(info: DatasetInfo, folder: Path) -> bool:
    """Return whether a folder has all files of the set, whatever is in them."""
    return _has_archives(info, folder) or _plain_files(info, folder) is not None


def read_content(info: DatasetInfo, folder: Path) -> Content:
    """Read the whole set from a folder.

    Raises
    ------
    UserError
        If a file is missing, damaged, hostile, or not the official content.
    """
    files = _unpack(info, folder)
    for name, data in files.items():
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != info.contents[name]:
            where = f"{folder}: {name}"
            raise UserError(where, f"checksum {found}", f"the official {info.contents[name]}")
    content = _READERS[info.format](info, files)
    check_content(info, content)
    return content


def _unpack(info: DatasetInfo, folder: Path) -> dict[str, bytes]:
    if _has_archives(info, folder):
        return _open_archives(info, folder)
    if plain := _plain_files(info, folder):
        return {name: read_plain(path) for name, path in plain.items()}
    names = ", ".join(file.name for file in info.files)
    raise UserError(str(folder), "files are missing", f"a folder with {names}")


def _has_archives(info: DatasetInfo, folder: Path) -> bool:
    return all((folder / file.name).is_file() for file in info.files)


def _plain_files(info: DatasetInfo, folder: Path) -> dict[str, Path] | None:
    for shorten in (str, lambda name: PurePosixPath(name).name):
        paths = {name: folder / shorten(name) for name in info.contents}
        if all(path.is_file() for path in paths.values()):
            return paths
    return None


def _open_archives(info: DatasetInfo, folder: Path) -> dict[str, bytes]:
    if info.format == "idx":  # one archive a file, in the catalogue's order
        pairs = zip(info.contents, info.files, strict=True)
        return {name: read_gzip(folder / file.name) for name, file in pairs}
    archive = info.files[0]
    path = folder / archive.name
    return read_tar(path, info.contents, trusted=md5_of(path) == archive.md5)


def md5_of(path: Path) -> str:
    """Return the MD5 of a file; official places publish no stronger checksum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()
