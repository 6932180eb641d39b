"""Step counter in a memory-mapped file: updated and read without a system call per step."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple, Self

_LAYOUT = struct.Struct("=qq")  # steps done, steps planned


class StepCount(NamedTuple):
    """Steps that a worker has completed, and all of them; 0 if their number is unknown."""

    done: int
    planned: int


class StepCounter:
    """Two 64-bit counters in a memory-mapped file, for the worker.

    The file is complete when it appears under its name. Each counter is stored by one aligned
    eight-byte write, so that a reader gets the old value or the new one. The page outlives the
    process: the progress of a killed worker can still be read.
    """

    def __init__(self, path: Path, planned: int = 0) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(_LAYOUT.pack(0, planned))
        with temporary.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        os.replace(temporary, path)
        self._counters = memoryview(self._map).cast("q")

    def set(self, done: int) -> None:
        """Set the number of completed steps."""
        self._counters[0] = done

    def close(self) -> None:
        """Unmap the file without removing it; may be called again."""
        self._counters.release()
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_step_count(path: Path) -> StepCount | None:
    """Read the progress of a worker; None while its file is missing or incomplete."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return StepCount(*_LAYOUT.unpack(content)) if len(content) == _LAYOUT.size else None
