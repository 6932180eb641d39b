"""What of some files the operating system keeps in memory, and asking it to let them go."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: Bytes that are read at once.
_PIECE = 2**20


def drop_pages(paths: Sequence[Path]) -> None:
    """Ask the system to forget the pages of some files; they are written out first.

    The system may decline: a file system that lies in memory, for one, has nowhere else to keep
    them. See :func:`resident_share`.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read_pages(paths: Sequence[Path]) -> None:
    """Read some files once, so that the system keeps what it has room for."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(_PIECE):
                pass


def resident_share(paths: Sequence[Path]) -> float | None:
    """Tell the share of the pages of some files that is in memory.

    Returns
    -------
    float or None
        0 to 1; nothing where the system does not tell (``mincore``).
    """
    counts = [_resident(path) for path in paths if path.stat().st_size]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or not known:
        return None
    return sum(resident for resident, _ in known) / sum(pages for _, pages in known)


def _resident(path: Path) -> tuple[int, int] | None:
    """Count the pages of a file that are in memory, and all of them."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    vector = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    # A copy-on-write mapping, because ctypes takes addresses of writable memory only.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        try:
            address = ctypes.c_void_p(ctypes.addressof(start))
            failed = libc.mincore(address, ctypes.c_size_t(size), vector)
        finally:
            del start
    if failed:
        return None
    return int(np.count_nonzero(np.frombuffer(bytes(vector), np.uint8) & 1)), pages
