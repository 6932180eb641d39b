"""Process control: deferred interrupts, parent-death signals, modules hidden from a process."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import horizont

#: The signals that interrupt the command line.
DEFERRED_SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP))

#: New objects after which garbage is collected.
COLLECTION_THRESHOLD = 100_000

HIDDEN_MODULES = frozenset({"pandas", "matplotlib"})

#: Looked up at import, because a child must do next to nothing between fork and exec.
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl
_PR_SET_PDEATHSIG = 1


def collect_rarely() -> None:
    """Collect garbage less often, and visit no imported object when the process ends.

    Imports create many objects and next to no garbage.
    """
    gc.set_threshold(COLLECTION_THRESHOLD)
    atexit.register(gc.freeze)


def interrupt_on_signals() -> None:
    """Make SIGTERM, and the SIGHUP of a closed terminal unless it is ignored, act as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # `nohup` ignores it
        signal.signal(signal.SIGHUP, signal.default_int_handler)


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts to the end of the context, for work that must not be interrupted halfway.

    Without effect in a thread: only the main thread is ever interrupted.
    """
    received: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)

    handlers: dict[int, object] = {}
    try:
        for number in DEFERRED_SIGNALS:
            handlers[number] = signal.signal(number, record)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)  # type: ignore[arg-type]
        for number in dict.fromkeys(received):
            signal.raise_signal(number)


def parent_death_signal(signal_number: int) -> Callable[[], Any]:
    """Return a `preexec_fn` for `subprocess.Popen` that sets the child's parent-death signal.

    A program that requested the signal itself could be stopped before it did, and would then
    never end: SIGKILL and SIGCONT reach stopped processes, too. The kernel sends the signal when
    the thread that started the process ends.
    """
    return partial(_PRCTL, _PR_SET_PDEATHSIG, signal_number)


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child that imports the same code, wherever it is run from."""
    folders = filter(None, [str(Path(horizont.__file__).parents[1]), os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **variables}


def exit_with_parent() -> None:
    """Request SIGKILL at the death of the parent, and exit if it has died already.

    The parent is the process whose ID is in ``HORIZONT_PARENT_PID``.
    """
    expected = os.environ.get("HORIZONT_PARENT_PID")
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if expected is not None and os.getppid() != int(expected):
        sys.exit("the launcher has ended")


class _HidingPathFinder(PathFinder):
    """Python's own finder, except that it does not find the hidden modules."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname in HIDDEN_MODULES else PathFinder.find_spec(fullname, path, target)


def hide_reporting_modules() -> None:
    """Make pandas and Matplotlib appear uninstalled to this process.

    They are installed for the reports, and other packages import them where they are. pyarrow
    imports pandas at the first list it converts, in the middle of sampling, to test whether the
    list is a pandas object; Keras imports both, a fifth of TensorFlow's start-up time and fifty
    megabytes that training does not use.

    The modules are not found, rather than refused with an error: some packages, such as PyTorch's
    compiler, only test whether they exist. None in `sys.modules` would not do: code compiled by
    Cython, such as pyarrow's, imports it as the module.
    """
    sys.meta_path[:] = [_HidingPathFinder if each is PathFinder else each for each in sys.meta_path]
