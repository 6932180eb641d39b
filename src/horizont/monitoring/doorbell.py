"""Sleeping until a time or a signal, whichever comes first."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

from horizont.monitoring.clock import now_s

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Doorbell:
    """Ends a sleep when a signal asks this process to stop.

    The handlers only note the signal: what is being written when it comes is written to its
    end. The wake-up descriptor makes this work whichever thread the kernel hands the signal to,
    and leaves no gap between looking and sleeping.

    Attributes
    ----------
    rung
        The name of the signal that came, or None.
    """

    def __init__(self) -> None:
        self.rung: str | None = None
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _STOPPING:
            signal.signal(number, self._ring)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self.rung = signal.Signals(number).name

    def wait_until(self, due_s: float) -> None:
        """Sleep until `due_s` on the monotonic clock, in seconds, or a signal."""
        if self.rung is None:
            # select takes microseconds where poll takes milliseconds
            select.select([self._reader], [], [], max(0.0, due_s - now_s()))
