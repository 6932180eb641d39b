"""Counters of processes, of the host and of network namespaces, by psutil where it offers them."""

from __future__ import annotations

import errno
import time
from typing import Any, BinaryIO, NamedTuple

import psutil

_RECEIVED, _SENT = 0, 8  # columns of /proc/net/dev; see proc(5)


class ProcessUsage(NamedTuple):
    """Counters of one process; see `horizont.monitoring.samples.Sample`."""

    cpu_s: float
    rss_bytes: int
    threads: int | None
    read_bytes: int | None
    write_bytes: int | None


def process_usage(process: psutil.Process, *, details: bool) -> ProcessUsage:
    """Read the counters of a process.

    CPU time comes from the process's POSIX clock, because the counters that psutil reads advance
    in steps of 10 ms. `psutil.Process.oneshot` is not used: what is read here shares no file, so
    that it would cost more than it saves.

    Parameters
    ----------
    details
        Whether to read threads and disk I/O too, which cost three times as much as the rest. Disk
        I/O stays None where the kernel refuses it (a process of another user).

    Raises
    ------
    psutil.NoSuchProcess
        If the process has ended, be it reaped or not.
    psutil.AccessDenied, OSError
        If the counters cannot be read.
    """
    rss_bytes = process.memory_info().rss
    # Only a zombie has no memory. Asking for the state of each process would cost a third more.
    if not rss_bytes and process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        raise psutil.ZombieProcess(process.pid)
    threads = read_bytes = write_bytes = None
    if details:
        threads = process.num_threads()
        try:
            counters = process.io_counters()
            read_bytes, write_bytes = counters.read_bytes, counters.write_bytes
        except psutil.AccessDenied:
            pass
    return ProcessUsage(_cpu_s(process), rss_bytes, threads, read_bytes, write_bytes)


def _cpu_s(process: psutil.Process) -> float:
    try:
        # The ID of a process's CPU clock, as clock_getcpuclockid(3) computes it.
        return time.clock_gettime((~process.pid << 3) | 2)
    except OSError:  # the process has ended, or the kernel does not offer the clock
        times = process.cpu_times()
        return float(times.user + times.system)


def host_usage(*, disk: bool) -> dict[str, Any]:
    """Read CPU time, memory and load of the host; see `horizont.monitoring.samples.Sample`.

    The disk I/O is as expensive as all the rest.
    """
    cpu, memory = psutil.cpu_times(), psutil.virtual_memory()
    io = psutil.disk_io_counters(nowrap=False) if disk else None
    # Not offered by psutil; unbuffered, which halves the cost.
    with open("/proc/loadavg", "rb", buffering=0) as file:
        runnable = int(file.read(64).split()[3].partition(b"/")[0])
    return {
        "cpu_s": cpu_busy_s(cpu),
        "read_bytes": io.read_bytes if io else None,
        "write_bytes": io.write_bytes if io else None,
        "runnable": runnable,
        "memory_used_bytes": memory.total - memory.available,
        "memory_available_bytes": memory.available,
        "load_1min": psutil.getloadavg()[0],
        "iowait_s": cpu.iowait,
        "steal_s": cpu.steal,
    }


def cpu_busy_s(cpu: psutil._pslinux.scputimes) -> float:
    """Sum the CPU time in use; guests are contained in `user` and `nice`."""
    return float(cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq)


def read_network_counters(counters: BinaryIO) -> list[tuple[str, int, int]]:
    """Read (interface, bytes sent, bytes received) from an open ``/proc/PID/net/dev``.

    psutil reads the network namespace of the calling process only.
    """
    counters.seek(0)
    rows = []
    for line in counters.read().decode().splitlines()[2:]:
        name, _, fields = line.partition(":")
        values = fields.split(None, _SENT + 1)
        rows.append((name.strip(), int(values[_SENT]), int(values[_RECEIVED])))
    return rows


def error_name(error: Exception) -> str:
    """Return the symbolic name of a system error, such as ``EMFILE``, else its class."""
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number or 0, type(error).__name__)
