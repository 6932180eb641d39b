"""The load by other programs over a window of time, by the names of their processes."""

from __future__ import annotations

import time
from collections import defaultdict

import psutil

from horizont.monitoring.background import BackgroundLoad
from horizont.monitoring.counters import cpu_busy_s


class LoadMeter:
    """CPU time that other programs use from now on; this process and its children do not count.

    Unlike :func:`~horizont.monitoring.background.measure_background` it reads every process of the
    machine at both ends, which takes some ten milliseconds.
    """

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._host = psutil.cpu_times()
        self._own_s = _own_cpu_s()
        self._processes = _cpu_s_by_process()

    def load(self) -> BackgroundLoad:
        """Compute the load until now."""
        capacity_s = (time.monotonic() - self._start_s) * (psutil.cpu_count() or 1)
        host = psutil.cpu_times()
        others_s = cpu_busy_s(host) - cpu_busy_s(self._host) - (_own_cpu_s() - self._own_s)
        stolen_s = host.steal - self._host.steal
        return BackgroundLoad(max(0.0, others_s / capacity_s), max(0.0, stolen_s / capacity_s))

    def cores_by_name(self) -> dict[str, float]:
        """Compute the CPUs in use by processes of other programs until now, the busiest first.

        Processes of one name are added up. Those that have ended, and those that this process
        cannot see (of another container), are missing.
        """
        span_s = time.monotonic() - self._start_s
        cores: defaultdict[str, float] = defaultdict(float)
        for process, cpu_s in _cpu_s_by_process().items():
            cores[process[2]] += (cpu_s - self._processes.get(process, 0.0)) / span_s
        return dict(sorted(cores.items(), key=lambda item: -item[1]))


def _own_cpu_s() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(psutil.Process().cpu_times()[:4])


def _cpu_s_by_process() -> dict[tuple[int, float, str], float]:
    """Return the CPU time of all other processes by ID, time of creation, and name."""
    own = psutil.Process()
    own_pids = {own.pid, *(child.pid for child in own.children(recursive=True))}
    return {
        (process.pid, process.info["create_time"], process.info["name"]): sum(times[:2])
        for process in psutil.process_iter(["name", "create_time", "cpu_times"])
        if process.pid not in own_pids and (times := process.info["cpu_times"]) is not None
    }
