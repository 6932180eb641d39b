"""A worker dies with the launcher that started it, whatever ends the launcher."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL at the death of the parent, and leave if it is dead already."""
    expected = os.environ.get("HORIZONT_PARENT")
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if expected is not None and os.getppid() != int(expected):
        sys.exit("the launcher is gone")
