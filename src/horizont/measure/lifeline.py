"""What the kernel does for a process when the one that started it dies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

#: Found before anything is started: between fork and exec a child must do next to nothing.
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl
_PR_SET_PDEATHSIG = 1


def signal_at_parents_death(number: int) -> Callable[[], None]:
    """Make a function for `subprocess.Popen`: the child calls it before the new program begins.

    A program that asked for the signal by itself could be stopped before it came so far, and
    would then lie there for ever: SIGKILL and SIGCONT reach stopped processes, too. The death
    that counts is that of the thread that started the process.
    """

    def ask() -> None:
        _PRCTL(_PR_SET_PDEATHSIG, number)

    return ask
