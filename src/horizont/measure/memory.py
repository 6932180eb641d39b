"""The memory of a process and its children, in which what they share counts once."""

from __future__ import annotations

import psutil


def tree_bytes() -> int:
    """Sum the proportional set sizes of this process and its children, in bytes.

    A page that n processes map counts as a n-th in each. Forked loader processes share most of
    their pages with their parent, so that resident sets would count them again and again.
    """
    this = psutil.Process()
    return sum(_proportional_bytes(each.pid) for each in [this, *this.children(recursive=True)])


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
