"""The counters of the machine (or of the network namespace) that the sampler runs in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_RECEIVED, _SENT = 0, 8  # places in a line of /proc/net/dev; see proc(5)
_PIECE_BYTES = 1 << 14
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class HostReading(NamedTuple):
    """The counters of a host at one moment.

    Attributes
    ----------
    cpu_s
        Time that its processors were busy since it started, summed over them, in seconds.
    iowait_s, steal_s
        Time idle with a disk request open, and time taken by the hypervisor for others, summed
        over the processors, in seconds.
    memory_used_bytes, memory_available_bytes
        As psutil defines them: without buffers and cache; what can be had without swapping.
    load_1min
        Load average over a minute.
    runnable
        Threads that run or wait for a processor at this moment, the sampler's own included.
    """

    cpu_s: float
    iowait_s: float
    steal_s: float
    memory_used_bytes: int
    memory_available_bytes: int
    load_1min: float
    runnable: int


class Traffic(NamedTuple):
    """Bytes that an interface has sent and received since it came up."""

    sent_bytes: int
    received_bytes: int


class TrafficReader:
    """The byte counters of the interfaces of a network namespace, through a kept descriptor.

    Parameters
    ----------
    counters
        The `net/dev` of a process inside.
    interfaces
        The interfaces to count; None for all there are at each sample.
    """

    def __init__(
        self, counters: Path = Path("/proc/net/dev"), interfaces: Sequence[str] | None = None
    ) -> None:
        self._interfaces = None if interfaces is None else frozenset(interfaces)
        self._file = os.open(counters, os.O_RDONLY)

    def read(self) -> dict[str, Traffic]:
        """Read the counters of each interface."""
        traffic = {}
        for line in _read_whole(self._file).decode().splitlines()[2:]:
            name, _, counters = line.partition(":")
            name = name.strip()
            if self._interfaces is None or name in self._interfaces:
                fields = counters.split(None, _SENT + 1)
                traffic[name] = Traffic(int(fields[_SENT]), int(fields[_RECEIVED]))
        return traffic

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._file)


class HostReader:
    """The host's counters, with psutil's meanings, through descriptors kept open.

    A third of what psutil's own reading costs; a test holds the two against each other. The
    disks, which are read seldom and need psutil's knowledge of what is a disk, go through it.

    Parameters
    ----------
    interfaces
        The network interfaces to count; None for all there are at each sample.
    """

    def __init__(self, interfaces: Sequence[str] | None = None) -> None:
        self._load = os.open("/proc/loadavg", os.O_RDONLY)
        self._stat = os.open("/proc/stat", os.O_RDONLY)
        self._memory = os.open("/proc/meminfo", os.O_RDONLY)
        self._network = TrafficReader(interfaces=interfaces)

    def read(self) -> HostReading:
        """Read what is cheap enough for every sample."""
        busy_s, iowait_s, steal_s = self._processors()
        total_bytes, available_bytes = self._memory_of_host()
        load = os.pread(self._load, 128, 0).split()
        return HostReading(
            busy_s,
            iowait_s,
            steal_s,
            total_bytes - available_bytes,
            available_bytes,
            float(load[0]),
            int(load[3].partition(b"/")[0]),
        )

    def _processors(self) -> tuple[float, float, float]:
        """Return the seconds busy, waiting for disks, and stolen, as `psutil.cpu_times` does."""
        fields = os.pread(self._stat, 256, 0).split(None, 9)[1:9]
        user, nice, system, _, iowait, irq, softirq, steal = (
            int(field) / _TICKS_PER_S for field in fields
        )
        return user + nice + system + irq + softirq, iowait, steal

    def _memory_of_host(self) -> tuple[int, int]:
        """Return the total and the available bytes, as `psutil.virtual_memory` does."""
        lines = os.pread(self._memory, 256, 0).split(b"\n", 3)
        return _kib(lines[0]), _kib(lines[2])

    def traffic(self) -> dict[str, Traffic]:
        """Read the byte counters of each interface, of this network namespace."""
        return self._network.read()

    def disk(self) -> tuple[int | None, int | None]:
        """Read the bytes read from and written to all disks; None where there is no disk."""
        counters = psutil.disk_io_counters(nowrap=False)
        return (counters.read_bytes, counters.write_bytes) if counters else (None, None)

    def close(self) -> None:
        """Close the descriptors."""
        self._network.close()
        for descriptor in (self._load, self._stat, self._memory):
            os.close(descriptor)


def busy_s(cpu: psutil._pslinux.scputimes) -> float:
    """Sum the seconds that the processors worked; guests are inside `user` and `nice`."""
    return float(cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq)


def _read_whole(descriptor: int) -> bytes:
    """Read to the end: the kernel hands such files out a page at a time.

    What fills less than half a page was the whole: only a line that is longer than the rest of
    the page is left for the next call.
    """
    content = piece = os.pread(descriptor, _PIECE_BYTES, 0)
    while len(piece) >= _PAGE_BYTES // 2:
        piece = os.pread(descriptor, _PIECE_BYTES, len(content))
        content += piece
    return content


def _kib(line: bytes) -> int:
    """Return the bytes that a line such as ``MemTotal:  16 kB`` tells."""
    return int(line.split()[1]) * 1024
