"""A share of the processors for each host, by control groups of either version."""

from __future__ import annotations

import os
from pathlib import Path

#: In each period a group may use its share and then waits for the next; the kernel's own default
#: of 100 ms would make a training step wait for many times its length.
PERIOD_US = 10_000


class Share:
    """A control group that may use so many processors' time, once it is held to it.

    Parameters
    ----------
    name
        One of a kind on this machine.

    Raises
    ------
    OSError
        If the kernel or the rights do not allow it.
    """

    def __init__(self, name: str, cpus: float) -> None:
        root, self.is_second_version = _root()
        self.quota_us = max(1000, round(cpus * PERIOD_US))
        self.folder = root / name
        self.folder.mkdir()
        self.is_held = False

    def hold(self) -> None:
        """Allow no more than the share from now on; to say it again changes nothing."""
        if self.is_held:  # the kernel would begin a new period with each writing
            return
        self.is_held = True
        quota_us = self.quota_us
        if self.is_second_version:
            (self.folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota_us))

    @property
    def entrance(self) -> tuple[str, ...]:
        """The words in front of a command that is to have this share and no more."""
        return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.folder))

    @property
    def removal(self) -> str:
        """The words of a shell that remove the group when its last process has ended."""
        tries = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"
        return f"{tries}; do rmdir '{self.folder}' 2>/dev/null && break; sleep 0.1; done; "


def _root() -> tuple[Path, bool]:
    """Find the group below which ours are made, and whether it is of the second version."""
    first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    if (second / "cgroup.controllers").exists():
        return second, True
    if not os.access(first, os.W_OK):
        raise OSError("no writable control group for processors")
    return first, False
