"""Reading archives into memory, trusting nothing in them.

Nothing is ever unpacked to disk. Names that point elsewhere, links and devices are refused all
the same, because whoever made such an archive did not make the official one.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from horizont.errors import UserError

ARCHIVE_LIMIT = 2**30  # bytes unpacked in all; the largest official archive has 2e8
CONTENT_LIMIT = 2**28  # bytes of one wanted file; the largest official one has 1.6e8
# What the standard library raises on damaged input: gzip and zlib, tarfile, and tarfile's header
# parsing, which lets number and index errors through.
_DAMAGE = (EOFError, OSError, zlib.error, tarfile.TarError, ValueError, IndexError)
_DAMAGE_DEEP = (OverflowError, RecursionError)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn every error of a damaged file into one for the user.

    Raises
    ------
    UserError
    """
    try:
        yield
    except (*_DAMAGE, *_DAMAGE_DEEP) as error:
        raise UserError(
            str(path), f"refused: {error}", "the whole, undamaged official file"
        ) from error


class _Bounded:
    """A stream that ends in an error once it has given more than ``limit`` bytes."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        most = self._left + 1
        data = self._stream.read(most if size < 0 else min(size, most))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("unpacks to far more than the official file")
        return data

    def drain(self) -> None:
        """Read to the end: only there gzip compares its checksum."""
        while self.read(2**20):
            pass


def read_plain(path: Path) -> bytes:
    """Return a file's bytes, at most ``CONTENT_LIMIT``."""
    with refusing(path), path.open("rb") as stream:
        return _Bounded(stream, CONTENT_LIMIT).read()


def read_gzip(path: Path) -> bytes:
    """Return the unpacked bytes of a gzip file, at most ``CONTENT_LIMIT``."""
    with refusing(path), gzip.open(path, "rb") as stream:
        return _Bounded(stream, CONTENT_LIMIT).read()  # type: ignore[arg-type]


def read_tar(path: Path, wanted: Collection[str], trusted: bool = False) -> dict[str, bytes]:
    """Return some members of a tar.gz.

    Parameters
    ----------
    path
        The archive.
    wanted
        The members' names, without a leading "./".
    trusted
        Whether the archive is byte for byte the official one; then members that are not wanted
        may be of any kind.

    Raises
    ------
    UserError
        If the archive is damaged or too large, lacks a wanted member or has it twice, or has a
        member that is a link, a device, or lies outside of the archive.
    """
    found: dict[str, bytes] = {}
    with refusing(path), gzip.open(path, "rb") as unpacked:
        stream = _Bounded(unpacked, ARCHIVE_LIMIT)  # type: ignore[arg-type]
        with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                name = str(PurePosixPath(member.name))
                if name in wanted or not trusted:
                    _check_member(member)
                if name in wanted:
                    found[name] = _read_member(archive, member, name in found)
        stream.drain()
        if missing := sorted(set(wanted) - set(found)):
            raise ValueError(f"lacks {', '.join(missing)}")
    return found


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, twice: bool) -> bytes:
    content = archive.extractfile(member)
    if twice or content is None or member.size > CONTENT_LIMIT:
        raise ValueError(f"member {member.name!r} is there twice, or no file, or too large")
    return content.read()


def _check_member(member: tarfile.TarInfo) -> None:
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts or "\\" in member.name:
        raise ValueError(f"member {member.name!r} lies outside of the archive")
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise ValueError(f"member {member.name!r} is a link, a device or the like")
