"""Which processes belong to the run: the roots that the launcher named and all that they start."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

import psutil


class _Kin(NamedTuple):
    """What ties a process to others: its parent, its process group, its session."""

    parent: int
    group: int
    session: int


class Groups:
    """The roots and their descendants, found by looking only at processes that are new.

    A process belongs to a root if its parent does, or if it is in the process group or session
    that the root leads; the latter finds what a parent has left behind by ending. Once in, a
    process stays in until it ends, whoever its parent becomes. Looking at new processes only
    makes a scan cost one listing of ``/proc``, however many processes the machine runs.

    Parameters
    ----------
    ignored
        Processes that are never members, such as the sampler itself.
    """

    def __init__(self, ignored: Iterable[int] = ()) -> None:
        self.members: dict[int, str] = {}
        self._leaders: dict[int, str] = {}
        self._kin: dict[int, _Kin] = {}
        self._ignored = frozenset(ignored)

    def add_root(self, pid: int, name: str) -> None:
        """Follow a process and what it starts under the name of its role.

        What it has started already is found by the next scan, which looks at everything again.
        """
        self.members[pid] = name
        self._leaders[pid] = name
        self._kin.clear()

    def drop(self, pid: int) -> None:
        """Forget a member that has ended; its children stay."""
        self.members.pop(pid, None)

    def scan(self) -> int:
        """Look for new members and return the number of processes on the machine."""
        pids = psutil.pids()
        self._kin = {pid: self._kin[pid] for pid in pids if pid in self._kin}
        fresh = {pid: kin for pid in pids if pid not in self._kin and (kin := _kin_of(pid))}
        self._kin.update(fresh)
        self._adopt({pid: kin for pid, kin in fresh.items() if pid not in self._ignored})
        return len(pids)

    def _adopt(self, candidates: dict[int, _Kin]) -> None:
        """Take in candidates until no more belong: a child may be listed before its parent."""
        grown = True
        while grown:
            names = {pid: self._name_of(kin) for pid, kin in candidates.items()}
            found = {pid: name for pid, name in names.items() if name and pid not in self.members}
            self.members.update(found)
            grown = bool(found)

    def _name_of(self, kin: _Kin) -> str | None:
        return (
            self.members.get(kin.parent)
            or self._leaders.get(kin.group)
            or self._leaders.get(kin.session)
        )


def _kin_of(pid: int) -> _Kin | None:
    """Look a process up, or return None if it has ended since it was listed."""
    try:
        return _Kin(psutil.Process(pid).ppid(), os.getpgid(pid), os.getsid(pid))
    except (psutil.Error, ProcessLookupError):
        return None
