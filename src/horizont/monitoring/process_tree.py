"""The processes of a run: discovery of the descendants of its roots."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

from horizont.monitoring.counters import ProcessUsage, error_name, process_usage


@dataclass
class TrackedProcess:
    """A process of the run and the times of its samples, in seconds on the monotonic clock.

    Attributes
    ----------
    first_s, last_s
        First and last sample; None if the process ended before it was sampled.
    ended
        Whether the process ended while it was tracked.
    """

    pid: int
    name: str
    process: psutil.Process | None
    first_s: float | None = None
    last_s: float | None = None
    ended: bool = False


class _Candidate(NamedTuple):
    """A process on the host and what relates it to others."""

    process: psutil.Process
    parent: int
    group: int
    session: int


class ProcessTree:
    """The roots named by the launcher and all their descendants.

    A process belongs to a root if its parent does, or if it is in the process group or session
    that the root leads; the latter finds processes whose parent has ended. Once found, a process
    belongs to the tree until it ends, whoever its parent becomes. A scan examines new processes
    only, so that it costs one listing of ``/proc`` however many processes the host runs
    (``psutil.Process.children(recursive=True)`` examines all of them). Excluded processes, such as
    the sampler itself, never belong to the tree.

    Attributes
    ----------
    history
        Every process found, in order of discovery.
    problems
        How often a process could not be read, by reason (``EMFILE``).
    """

    def __init__(self, *excluded: int) -> None:
        self.history: list[TrackedProcess] = []
        self.problems: Counter[str] = Counter()
        self._excluded = frozenset(excluded)
        self._roots: dict[int, str] = {}
        self._members: dict[int, TrackedProcess] = {}
        self._examined: dict[int, _Candidate] = {}

    def add_root(self, pid: int, name: str) -> None:
        """Track a process and its descendants; the next scan finds those that exist already."""
        self._roots[pid] = name
        self._examined.clear()
        try:
            self._add(pid, name, psutil.Process(pid))
        except psutil.NoSuchProcess:
            self.history.append(TrackedProcess(pid, name, None, ended=True))

    def scan(self) -> int:
        """Find new processes of the tree; return the number of processes on the host."""
        for member in list(self._members.values()):
            # False also if the process ID belongs to another process by now.
            if member.process and not member.process.is_running():
                self._remove(member)
        pids = psutil.pids()
        self._examined = {pid: self._examined[pid] for pid in pids if pid in self._examined}
        new = {p: found for p in pids if p not in self._examined and (found := _candidate(p))}
        self._examined.update(new)
        # Repeated, because a child may be listed before its parent.
        while belonging := {p: name for p, c in new.items() if (name := self._root_of(p, c))}:
            for pid, name in belonging.items():
                self._add(pid, name, new.pop(pid).process)
        return len(pids)

    def usage(self, time_s: float, *, details: bool) -> Iterator[tuple[int, str, ProcessUsage]]:
        """Yield process ID, root name and counters of each living process of the tree.

        `time_s` is the time of the sample; `details` as of `process_usage`.
        """
        for pid, member in list(self._members.items()):
            assert member.process is not None
            try:
                usage = process_usage(member.process, details=details)
            except psutil.NoSuchProcess:
                self._remove(member)
                continue
            except (psutil.Error, OSError) as error:  # the next sample tries again
                self.problems[error_name(error)] += 1
                continue
            member.first_s = time_s if member.first_s is None else member.first_s
            member.last_s = time_s
            yield pid, member.name, usage

    def report(self) -> dict[str, Any]:
        """Return the processes found and the problems, as plain values for a JSON file."""
        fields = ("pid", "name", "first_s", "last_s", "ended")
        return {
            "processes": [{name: getattr(each, name) for name in fields} for each in self.history],
            "problems": dict(self.problems),
        }

    def _add(self, pid: int, name: str, process: psutil.Process) -> None:
        self._members[pid] = TrackedProcess(pid, name, process)
        self.history.append(self._members[pid])

    def _remove(self, member: TrackedProcess) -> None:
        member.ended = True
        del self._members[member.pid]

    def _root_of(self, pid: int, candidate: _Candidate) -> str | None:
        if pid in self._members or pid in self._excluded:
            return None
        if parent := self._members.get(candidate.parent):
            return parent.name
        return self._roots.get(candidate.group) or self._roots.get(candidate.session)


def _candidate(pid: int) -> _Candidate | None:
    """Return what relates a process to others; None if it has ended since it was listed."""
    try:
        process = psutil.Process(pid)
        return _Candidate(process, process.ppid(), os.getpgid(pid), os.getsid(pid))
    except (psutil.Error, OSError):
        return None
