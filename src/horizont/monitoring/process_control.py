"""Work that an interrupt must not cut in two."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType

#: What the command line takes for an interrupt.
DEFERRED_SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP))


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Hold interrupts back until the block is over; then they are heard as usual.

    In a thread this does nothing: only the main thread is ever interrupted.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)

    before: dict[int, object] = {}
    try:
        for number in DEFERRED_SIGNALS:
            before[number] = signal.signal(number, note)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # type: ignore[arg-type]
        for number in dict.fromkeys(came):
            signal.raise_signal(number)


#: Found before anything is started: between fork and exec a child must do next to nothing.
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl
_PR_SET_PDEATHSIG = 1


def parent_death_signal(signal_number: int) -> Callable[[], None]:
    """Make a function for `subprocess.Popen`: the child calls it before the new program begins.

    A program that asked for the signal by itself could be stopped before it came so far, and
    would then lie there for ever: SIGKILL and SIGCONT reach stopped processes, too. The death
    that counts is that of the thread that started the process.
    """

    def ask() -> None:
        _PRCTL(_PR_SET_PDEATHSIG, signal_number)

    return ask


PR_SET_PDEATHSIG = 1


def exit_with_parent() -> None:
    """Ask the kernel for SIGKILL at the death of the parent, and leave if it is dead already."""
    expected = os.environ.get("HORIZONT_PARENT_PID")
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if expected is not None and os.getppid() != int(expected):
        sys.exit("the launcher is gone")


HIDDEN_MODULES = frozenset({"pandas", "matplotlib"})


class _HidingPathFinder(PathFinder):
    """Python's own finder, which finds all but what is kept out."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname in HIDDEN_MODULES else PathFinder.find_spec(fullname, path, target)


def hide_reporting_modules() -> None:
    """Make pandas and Matplotlib look absent to this process.

    They are installed for the report, and are imported by others if they are there. pyarrow
    imports pandas at the first list it is given, in the middle of the sampling, to find out
    whether the list is a pandas object; Keras imports both, a fifth of TensorFlow's start-up and
    fifty megabytes that have nothing to do with training.

    They are not found, rather than refused: some, like PyTorch's compiler, only ask.
    """
    sys.meta_path[:] = [_HidingPathFinder if each is PathFinder else each for each in sys.meta_path]
