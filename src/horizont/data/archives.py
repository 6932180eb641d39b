"""Reading archives into memory, trusting nothing in them.

Nothing is ever unpacked to disk. Names that point elsewhere, links and devices are refused all
the same, because whoever made such an archive did not make the official one.
"""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from horizont.errors import UserError

ARCHIVE_LIMIT = 2**30  # bytes unpacked in all; the largest official archive has 2e8
MEMBER_LIMIT = 2**28  # bytes of one wanted file; the largest official one has 1.6e8
# What the standard library raises on damaged input: gzip and zlib, tarfile, and tarfile's header
# parsing, which lets number and index errors through.
_ARCHIVE_ERRORS = (EOFError, OSError, zlib.error, tarfile.TarError, ValueError, IndexError)
_NESTED_ARCHIVE_ERRORS = (OverflowError, RecursionError)


@contextmanager
def as_user_errors(path: Path) -> Iterator[None]:
    """Turn every error of a damaged file into one for the user.

    Raises
    ------
    UserError
    """
    try:
        yield
    except (*_ARCHIVE_ERRORS, *_NESTED_ARCHIVE_ERRORS) as error:
        raise UserError(
            str(path), f"refused: {error}", "the whole, undamaged official file"
        ) from error


class _LimitedStream:
    """A stream that ends in an error once it has given more than ``limit`` bytes."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._remaining = limit

    def read(self, size: int = -1) -> bytes:
        most = self._remaining + 1
        data = self._stream.read(most if size < 0 else min(size, most))
        self._remaining -= len(data)
        if self._remaining < 0:
            raise ValueError("unpacks to far more than the official file")
        return data

    def read_to_end(self) -> None:
        """Read to the end: only there gzip compares its checksum."""
        while self.read(2**20):
            pass


def read_uncompressed(path: Path) -> bytes:
    """Return a file's bytes, at most ``CONTENT_LIMIT``."""
    with as_user_errors(path), path.open("rb") as stream:
        return _LimitedStream(stream, MEMBER_LIMIT).read()


def read_gzip(path: Path) -> bytes:
    """Return the unpacked bytes of a gzip file, at most ``CONTENT_LIMIT``."""
    with as_user_errors(path), gzip.open(path, "rb") as stream:
        return _LimitedStream(stream, MEMBER_LIMIT).read()  # type: ignore[arg-type]


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
    with as_user_errors(path), gzip.open(path, "rb") as unpacked:
        stream = _LimitedStream(unpacked, ARCHIVE_LIMIT)  # type: ignore[arg-type]
        with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                name = str(PurePosixPath(member.name))
                if name in wanted or not trusted:
                    _check_member(member)
                if name in wanted:
                    found[name] = _read_member(archive, member, name in found)
        stream.read_to_end()
        if missing := sorted(set(wanted) - set(found)):
            raise ValueError(f"lacks {', '.join(missing)}")
    return found


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, is_duplicate: bool) -> bytes:
    content = archive.extractfile(member)
    if is_duplicate or content is None or member.size > MEMBER_LIMIT:
        raise ValueError(f"member {member.name!r} is there twice, or no file, or too large")
    return content.read()


def _check_member(member: tarfile.TarInfo) -> None:
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts or "\\" in member.name:
        raise ValueError(f"member {member.name!r} lies outside of the archive")
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise ValueError(f"member {member.name!r} is a link, a device or the like")


# Whatever a hostile pickle makes the unpickler raise; its machine checks little by itself.
UNPICKLING_ERRORS = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


class _UnsignedByteType:
    """Stands for ``numpy.dtype``; only unsigned bytes are admitted."""

    def __init__(self, code: object, *flags: object) -> None:
        if code not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"an array of type {code!r}, not of bytes")

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if any(part is not None for part in state[2:5]):  # a structured or nested type
            raise pickle.UnpicklingError("an array of a compound type")


class ByteArray:
    """Stands for a pickled ``numpy.ndarray`` of unsigned bytes."""

    def __init__(self, *construction: object) -> None:
        self._pixels: NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, columns_first, content = state
        if not isinstance(kind, _UnsignedByteType) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array of something else than bytes")
        flat = np.frombuffer(content, np.uint8)
        self._pixels = flat.reshape(shape, order="F" if columns_first else "C")

    def pixels(self) -> NDArray[np.uint8]:
        """Return the content."""
        if self._pixels is None:
            raise ValueError("an array without content")
        return self._pixels


_ALLOWED_GLOBALS: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): ByteArray,
    ("numpy._core.multiarray", "_reconstruct"): ByteArray,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _UnsignedByteType,
}


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED_GLOBALS:
            raise pickle.UnpicklingError(f"a call of {module}.{name}")
        return _ALLOWED_GLOBALS[module, name]


def load_restricted_pickle(content: bytes) -> object:
    """Return the object in a pickle of Python 2's lists, dictionaries, strings and byte arrays.

    Strings come as ``bytes``, arrays as :class:`ByteArray`.

    Raises
    ------
    One of ``DAMAGE``
        If the pickle is damaged or wants anything else.
    """
    _check_memo_numbers(content)
    return _RestrictedUnpickler(io.BytesIO(content), encoding="bytes").load()


def _check_memo_numbers(content: bytes) -> None:
    """Refuse huge memo numbers: the unpickler makes a table as long as the highest one."""
    for count, (code, argument, _) in enumerate(pickletools.genops(content)):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise pickle.UnpicklingError(f"memo number {argument} after {count} operations")
