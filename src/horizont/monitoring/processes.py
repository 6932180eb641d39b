"""The counters of one process, read often and cheaply.

psutil finds the processes (see `groups`); their counters come through two descriptors kept open
on ``/proc``, at about a tenth of the cost of psutil's reading, which opens and parses four files
each time. A kept descriptor has a second virtue: it belongs to the process, not to its number,
so a number that the kernel gives away again can never be mistaken for the old process.
"""

from __future__ import annotations

import os
import resource
import time
from typing import NamedTuple

_PAGE_BYTES = resource.getpagesize()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Places in /proc/PID/stat after the closing bracket of the name; see proc(5).
_STATE, _USER, _SYSTEM, _THREADS, _RSS = 0, 11, 12, 17, 21
_DEAD = (b"Z", b"X", b"x")


class ProcessReading(NamedTuple):
    """The counters of a process at one moment.

    Attributes
    ----------
    cpu_s
        Processor time of all its threads since it started, user and system, in seconds.
        Children are processes of their own and not included.
    rss_bytes
        Resident memory; pages shared with other processes count in each of them.
    threads
        Number of threads.
    read_bytes, write_bytes
        Bytes that it made the disks read and write since it started; what the page cache
        served is not in it. None where the kernel does not tell (another user's process), and
        where nobody asked.
    """

    cpu_s: float
    rss_bytes: int
    threads: int
    read_bytes: int | None
    write_bytes: int | None


def allow_many_descriptors() -> None:
    """Raise the limit of open files to what the system allows: 500 processes take 1000."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open_if_allowed(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


class ProcessReader:
    """One process with its descriptors.

    Parameters
    ----------
    pid
        The number of the process.

    Raises
    ------
    ProcessLookupError
        If there is no such process.
    """

    __slots__ = ("_clock", "_io", "_stat", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._clock = (~pid << 3) | 2  # the processor-time clock of a process, as in glibc
        self._stat: int | None
        try:
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        except FileNotFoundError:
            raise ProcessLookupError(pid) from None
        self._io = _open_if_allowed(f"/proc/{pid}/io")

    @property
    def descriptor(self) -> int:
        """The highest descriptor that it holds; -1 if it is closed."""
        return max(-1 if held is None else held for held in (self._stat, self._io))

    def read(self, disk: bool = True) -> ProcessReading | None:
        """Read the counters, or None when the process has ended (or waits to be reaped).

        Parameters
        ----------
        disk
            Whether to read those of the disks, too: a third of all calls.
        """
        if self._stat is None:
            return None
        try:
            stat = os.pread(self._stat, 1024, 0)
        except ProcessLookupError:
            return None
        # The name stands in brackets and may hold brackets and spaces itself.
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[_STATE] in _DEAD:
            return None
        return ProcessReading(
            self._cpu_s(fields),
            int(fields[_RSS]) * _PAGE_BYTES,
            int(fields[_THREADS]),
            *(self._disk() if disk else (None, None)),
        )

    def _cpu_s(self, fields: list[bytes]) -> float:
        """Take the processor time from the process's own clock: nanoseconds, not 10 ms ticks."""
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # ended meanwhile, or a kernel that does not offer the clock
            return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_S

    def _disk(self) -> tuple[int | None, int | None]:
        if self._io is None:
            return None, None
        try:
            lines = os.pread(self._io, 512, 0).split(b"\n")
            return int(lines[4].rpartition(b" ")[2]), int(lines[5].rpartition(b" ")[2])
        except (OSError, ValueError, IndexError):
            return None, None

    def close(self) -> None:
        """Close the descriptors; harmless when repeated."""
        descriptors = [self._stat, self._io]
        self._stat = self._io = None
        for descriptor in descriptors:
            if descriptor is not None:
                os.close(descriptor)
