"""All processes of the run: finding them, reading them, noting those that come and go."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from horizont.monitoring.groups import Groups
from horizont.monitoring.processes import ProcessReader, ProcessReading

#: Descriptors that are kept free: for looking for processes, for the disks, for the table.
_SPARE = 16


@dataclass
class Life:
    """What is known of one process of the run, times on the monotonic clock, in seconds.

    Attributes
    ----------
    first_s, last_s
        First and last reading; None if it had ended before there was one.
    ended
        Whether it ended while it was watched.
    """

    pid: int
    name: str
    first_s: float | None = None
    last_s: float | None = None
    ended: bool = False


class Follower:
    """The readers of all members of the groups.

    Attributes
    ----------
    lives
        Every process seen, in the order of appearance.
    problems
        How often a process could not be opened, by reason.
    """

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.problems: dict[str, int] = {}
        self._groups = Groups(ignored=[os.getpid()])
        self._open: dict[int, tuple[ProcessReader, Life]] = {}
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE

    def add_root(self, pid: int, name: str) -> None:
        """Follow a process from the next scan on."""
        self._groups.add_root(pid, name)

    def scan(self) -> int:
        """Take in new members; return the number of processes on the machine."""
        count = self._groups.scan()
        for pid, name in list(self._groups.members.items()):
            if pid not in self._open:
                self._open_reader(pid, name)
        return count

    def _open_reader(self, pid: int, name: str) -> None:
        life = Life(pid, name)
        try:
            self._open[pid] = (self._reader(pid), life)
        except ProcessLookupError:
            self._groups.drop(pid)
            life.ended = True
        except OSError as error:
            # Out of descriptors, say: the next scan tries again, the record tells of it.
            reason = errno.errorcode.get(error.errno or 0, str(error))
            self.problems[reason] = self.problems.get(reason, 0) + 1
            return
        self.lives.append(life)

    def _reader(self, pid: int) -> ProcessReader:
        """Open a reader, unless that takes the last descriptors: then nothing else would work."""
        reader = ProcessReader(pid)
        if reader.descriptor >= self._most:
            reader.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return reader

    def read(self, time_s: float, disk: bool) -> Iterator[tuple[int, str, ProcessReading]]:
        """Yield the counters of every living member; let go of those that have ended.

        Parameters
        ----------
        time_s
            The time of the sample, in seconds.
        disk
            Whether to read the counters of the disks, too.
        """
        for pid, (reader, life) in list(self._open.items()):
            reading = reader.read(disk)
            if reading is None:
                self._let_go(pid)
                continue
            if life.first_s is None:
                life.first_s = time_s
            life.last_s = time_s
            yield pid, life.name, reading

    def _let_go(self, pid: int) -> None:
        reader, life = self._open.pop(pid)
        reader.close()
        life.ended = True
        self._groups.drop(pid)

    def report(self) -> dict[str, Any]:
        """Return what was seen, as plain values for a JSON file."""
        return {
            "processes": [asdict(life) for life in self.lives],
            "problems": dict(self.problems),
        }
