"""One measurement at a time on a machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def lock_path() -> Path:
    """Name the file that whoever measures on this machine holds."""
    return Path(tempfile.gettempdir()) / f"horizont-{os.getuid()}.lock"


@contextlib.contextmanager
def measuring_alone(waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine for a measurement, waiting until it is free.

    The kernel gives the lock back however the holder ends.

    Parameters
    ----------
    waiting
        Told once, in a sentence, if another measurement is under way.
    """
    with lock_path().open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting("waiting for another measurement on this machine to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
