"""One measurement at a time on a machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

#: The file that whoever measures on this machine holds: one for all users and settings.
LOCK = Path("/tmp/horizont.lock")


def _open_lock() -> int:
    """Open the file to be locked, for which reading is enough.

    Where everybody may make files, the kernel refuses to make one that another user has made.
    """
    try:
        return os.open(LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(LOCK, os.O_RDONLY | os.O_CREAT, 0o644)


@contextlib.contextmanager
def measuring_alone(waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine for a measurement, waiting until it is free.

    The kernel gives the lock back however the holder ends.

    Parameters
    ----------
    waiting
        Told once, in a sentence, if another measurement is under way.
    """
    with open(_open_lock(), encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting("waiting for another measurement on this machine to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
