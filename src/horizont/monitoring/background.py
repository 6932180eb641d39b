"""Background load: CPU time that other programs used while something was measured."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from horizont.monitoring.counters import cpu_busy_s

#: Background load from which a run is marked as disturbed, as a fraction of all CPUs.
DISTURBED_FRACTION = 0.05

#: How often the processes are read again because one of them ended meanwhile.
_READINGS = 10

#: PID and time of creation.
_Process = tuple[int, float]


class _ProcessTimes(NamedTuple):
    """Name and parent's PID of a process; CPU seconds of it and of its children that ended."""

    name: str
    parent: int
    own_s: float
    children_s: float

    @property
    def total_s(self) -> float:
        return self.own_s + self.children_s


@dataclass(frozen=True)
class BackgroundLoad:
    """CPU time that was not available to a run.

    Attributes
    ----------
    cpu_fraction
        CPU time of unrelated processes as a fraction of all CPUs.
    steal_fraction
        CPU time that the hypervisor gave to other machines, as a fraction of all CPUs.
    """

    cpu_fraction: float
    steal_fraction: float

    @property
    def disturbed(self) -> bool:
        """Whether that is enough to mark a run."""
        return self.cpu_fraction >= DISTURBED_FRACTION or self.steal_fraction >= DISTURBED_FRACTION


class CpuUsage(NamedTuple):
    """CPU time of a span, in seconds: of other programs, of this one with its children, stolen.

    `capacity_s` is the time of all CPUs together.
    """

    others_s: float
    own_s: float
    stolen_s: float
    capacity_s: float

    @property
    def load(self) -> BackgroundLoad:
        """The CPU time that was not available, as fractions of all CPUs."""
        others, stolen = self.others_s / self.capacity_s, self.stolen_s / self.capacity_s
        return BackgroundLoad(max(0.0, others), max(0.0, stolen))


class BackgroundMeter:
    """Measures the CPU time that other programs use from now on.

    This process and its children do not count; the latter must have ended, and been waited for,
    when the load is read. Every process of the machine is read at both ends, which takes some ten
    milliseconds.
    """

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._host = psutil.cpu_times()
        self._own_s = _own_cpu_s()
        self._processes = _other_processes()

    def load(self, *, with_quotas: bool = False) -> BackgroundLoad:
        """Compute the load until now; see `usage`."""
        return self.usage(with_quotas=with_quotas).load

    def usage(self, *, with_quotas: bool = False) -> CpuUsage:
        """Compute the CPU time until now.

        Where CPU quotas limited the children, the processes are added up, those of other containers
        excepted, because the machine's own counters are wrong: they charge a whole tick to the
        process that runs at its end, and a group runs when its period begins, which is then. Ten
        emulated hosts of 0.16 CPUs were charged 2.2 instead of 1.6.
        """
        capacity_s = (time.monotonic() - self._start_s) * (psutil.cpu_count() or 1)
        host = psutil.cpu_times()
        own_s = _own_cpu_s() - self._own_s
        if with_quotas:
            others_s = _used_s(self._processes, _other_processes())
        else:
            others_s = cpu_busy_s(host) - cpu_busy_s(self._host) - own_s
        return CpuUsage(others_s, own_s, host.steal - self._host.steal, capacity_s)

    def cores_by_name(self) -> dict[str, float]:
        """Compute the CPUs in use by processes of other programs until now, the busiest first.

        Processes of one name are added up. Those that have ended, and those that this process
        cannot see (of another container), are missing.
        """
        span_s = time.monotonic() - self._start_s
        cores: defaultdict[str, float] = defaultdict(float)
        for process, times in _other_processes().items():
            before = self._processes.get(process)
            cores[times.name] += (times.own_s - (before.own_s if before else 0.0)) / span_s
        return dict(sorted(cores.items(), key=lambda item: -item[1]))


def _own_cpu_s() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(psutil.Process().cpu_times()[:4])


def _used_s(before: dict[_Process, _ProcessTimes], after: dict[_Process, _ProcessTimes]) -> float:
    """Compute the CPU time that was used between two readings, in seconds.

    A process that has ended is counted by its parent, with the time of its whole life. The time of
    those whose parent does not wait for them (it ignores SIGCHLD) is lost; it must not be taken
    from the time of the others. Hence the earlier life is subtracted from what the nearest ancestor
    that is alive has gained, and, as far as that gained less, from what PID 1 has: it adopts
    orphans.
    """
    parents = {pid: times.parent for (pid, _), times in before.items()}
    alive = {pid for pid, _ in before.keys() & after.keys()}
    earlier_s: defaultdict[int, float] = defaultdict(float)
    for (pid, _), times in before.items():
        if pid not in alive:
            ancestor = times.parent
            while ancestor in parents and ancestor not in alive:
                ancestor = parents[ancestor]
            earlier_s[ancestor] += times.total_s
    used_s = 0.0
    gained_s: dict[int, float] = {}
    for process, times in after.items():
        start = before.get(process, times._replace(own_s=0.0, children_s=0.0))
        used_s += times.own_s - start.own_s
        gained_s[process[0]] = times.children_s - start.children_s
    orphans_s = 0.0
    for pid in gained_s.keys() - {1}:
        used_s += max(0.0, gained_s[pid] - earlier_s[pid])
        orphans_s += max(0.0, earlier_s[pid] - gained_s[pid])
    return used_s + max(0.0, gained_s.get(1, 0.0) - earlier_s[1] - orphans_s)


def _other_processes() -> dict[_Process, _ProcessTimes]:
    """Read all processes but this one and its children.

    Where one of them ends after its parent was read and before it was itself, its time is in
    neither; then all are read again.
    """
    for _ in range(_READINGS):
        pids = set(psutil.pids())
        processes = _read_processes()
        if pids <= set(psutil.pids()):
            break
    return processes


def _read_processes() -> dict[_Process, _ProcessTimes]:
    own = psutil.Process()
    own_pids = {own.pid, *(child.pid for child in own.children(recursive=True))}
    return {
        (process.pid, process.info["create_time"]): _ProcessTimes(
            process.info["name"], process.info["ppid"], sum(times[:2]), sum(times[2:4])
        )
        for process in psutil.process_iter(["name", "ppid", "create_time", "cpu_times"])
        if process.pid not in own_pids and (times := process.info["cpu_times"]) is not None
    }
