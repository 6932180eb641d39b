"""A command that is waited for, while signals to us are its signals."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_attended(command: Sequence[str], started: Callable[[int], None]) -> int:
    """Run a command to its end, in our terminal and with our standard streams.

    Parameters
    ----------
    started
        Told the number of its process.

    Returns
    -------
    int
        Its exit status; 128 and the number of the signal if one ended it, as a shell has it.
    """
    process: subprocess.Popen[bytes] | None = None

    def hand_on(number: int, frame: FrameType | None) -> None:
        del frame
        # A Ctrl-C of the terminal has reached the command already.
        if process is not None and not (number == signal.SIGINT and _in_foreground()):
            process.send_signal(number)

    with _heard_by(hand_on):
        process = subprocess.Popen(command)
        started(process.pid)
        status = process.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _heard_by(hand_on: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let the handler hear the signals; those that are ignored (`nohup`) stay so."""
    before = {number: signal.getsignal(number) for number in _HANDED_ON}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    try:
        for number in heard:
            signal.signal(number, hand_on)
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _in_foreground() -> bool:
    """Whether the terminal's keys reach our process group, and so the command in it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
