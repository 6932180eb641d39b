"""A step counter that a worker moves and a watcher reads, without a system call per step."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_LAYOUT = struct.Struct("=qq")  # steps done, steps planned


class StepCount(NamedTuple):
    """How far a worker is.

    Attributes
    ----------
    done
        Steps ended.
    planned
        Steps in all; 0 while that is not known.
    """

    done: int
    planned: int


class StepCounter:
    """The worker's side: two 64-bit counters in a file that is mapped into memory.

    The file appears whole under its name. Each counter is stored by one aligned eight-byte
    write, so a reader sees the old number or the new one. The page outlives the process: a
    watcher still reads how far a killed worker came.

    Parameters
    ----------
    path
        The file, made anew; its folder must exist.
    planned
        The number of steps in all, or 0.
    """

    def __init__(self, path: Path, planned: int = 0) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(_LAYOUT.pack(0, planned))
        with temporary.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        os.replace(temporary, path)
        self._counters = memoryview(self._map).cast("q")

    def set(self, done: int) -> None:
        """Publish the number of steps ended."""
        self._counters[0] = done

    def close(self) -> None:
        """Unmap the file, which stays; harmless when repeated."""
        self._counters.release()
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_step_count(path: Path) -> StepCount | None:
    """Read how far a worker is, or None while its file is missing or not whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return StepCount(*_LAYOUT.unpack(content)) if len(content) == _LAYOUT.size else None
