"""Reading of untrusted archives and pickles into memory, with limits.

Nothing is unpacked to disk. Members with paths outside of the archive, links and devices are
refused nevertheless: an archive with them is not the official one.
"""

from __future__ import annotations

import gzip
import hashlib
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

from horizont.errors import Problem, UserError

#: Largest unpacked size of an archive, in bytes; the largest official one has 2e8.
ARCHIVE_LIMIT = 2**30
#: Largest size of a single file that is read, in bytes; the largest official one has 1.6e8.
MEMBER_LIMIT = 2**28
# Raised by the standard library for damaged input: by gzip and zlib, by tarfile, and by tarfile's
# parsing of headers, which does not catch errors of numbers and indices.
_ARCHIVE_ERRORS = (EOFError, OSError, zlib.error, tarfile.TarError, ValueError, IndexError)


@contextmanager
def as_user_errors(path: Path) -> Iterator[None]:
    """Convert every error of a damaged file to a UserError."""
    try:
        yield
    except (*_ARCHIVE_ERRORS, OverflowError, RecursionError) as error:
        allowed = "the complete, undamaged official file"
        raise UserError(str(path), Problem(f"refused: {error}"), allowed) from error


def md5_of(path: Path) -> str:
    """Return the MD5 of a file; official sources publish no stronger checksum."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def _read_limited(stream: BinaryIO | gzip.GzipFile, limit: int) -> bytes:
    """Read to the end, where gzip verifies its checksum."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError("unpacks to far more than the official file")
    return data


def read_uncompressed(path: Path) -> bytes:
    """Return the content of a file, at most ``MEMBER_LIMIT`` bytes."""
    with as_user_errors(path), path.open("rb") as stream:
        return _read_limited(stream, MEMBER_LIMIT)


def read_gzip(path: Path) -> bytes:
    """Return the uncompressed content of a gzip file, at most ``MEMBER_LIMIT`` bytes."""
    with as_user_errors(path), gzip.open(path) as stream:
        return _read_limited(stream, MEMBER_LIMIT)


def read_tar(path: Path, wanted: Collection[str], trusted: bool = False) -> dict[str, bytes]:
    """Return the wanted members of a tar.gz, by their names without a leading "./".

    An archive is refused if it is damaged or too large, lacks a wanted member or has it twice, or
    has a member that is a link or a device, or whose path is outside of the archive. If it is
    trusted, for it has the official checksum, the other members may be of any type.
    """
    members: dict[str, bytes] = {}
    with as_user_errors(path):
        with gzip.open(path) as stream:
            unpacked = io.BytesIO(_read_limited(stream, ARCHIVE_LIMIT))
        with tarfile.open(fileobj=unpacked, mode="r:") as archive:
            for member in archive:
                name = str(PurePosixPath(member.name))
                if name in wanted or not trusted:
                    _check_member(member)
                if name in wanted:
                    members[name] = _read_member(archive, member, name in members)
        if missing := sorted(set(wanted) - set(members)):
            raise ValueError(f"lacks {', '.join(missing)}")
    return members


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, is_duplicate: bool) -> bytes:
    content = archive.extractfile(member)
    if is_duplicate or content is None or member.size > MEMBER_LIMIT:
        raise ValueError(f"member {member.name!r} is a duplicate, not a file, or too large")
    return content.read()


def _check_member(member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name:
        raise ValueError(f"member {member.name!r} is outside of the archive")
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise ValueError(f"member {member.name!r} is neither a file nor a folder")


#: Raised by the unpickler for malicious or damaged pickles; it checks little by itself.
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


# A pickle is a program that can call whatever it names. Here it can name three things, each with
# an inert replacement, so that not even NumPy's unpickling code sees the content.


class _UnsignedByteType:
    """Replacement for ``numpy.dtype`` that accepts unsigned bytes only."""

    def __init__(self, code: object, *flags: object) -> None:
        if code not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"an array of type {code!r} instead of bytes")

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if any(part is not None for part in state[2:5]):  # a structured or nested type
            raise pickle.UnpicklingError("an array of a compound type")


class ByteArray:
    """Replacement for a pickled ``numpy.ndarray`` of unsigned bytes."""

    def __init__(self, *construction: object) -> None:
        self._pixels: NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _UnsignedByteType) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array that does not hold bytes")
        flat = np.frombuffer(content, np.uint8)
        self._pixels = flat.reshape(shape, order="F" if is_fortran else "C")

    def pixels(self) -> NDArray[np.uint8]:
        """Return the array."""
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
    """Return the object in a pickle of lists, dictionaries, strings and byte arrays.

    Strings of Python 2 become ``bytes``, arrays :class:`ByteArray`. A pickle that is damaged or
    contains anything else raises one of `UNPICKLING_ERRORS`.
    """
    _check_memo_numbers(content)
    return _RestrictedUnpickler(io.BytesIO(content), encoding="bytes").load()


def _check_memo_numbers(content: bytes) -> None:
    """Raise an error for huge memo numbers: the unpickler allocates a table up to the highest."""
    for count, (code, argument, _) in enumerate(pickletools.genops(content)):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise pickle.UnpicklingError(f"memo number {argument} after {count} operations")
