"""Work that an interrupt must not cut in two."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

#: What the command line takes for an interrupt.
POLITE = (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP))


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Hold interrupts back until the block is over; then they are heard as usual.

    In a thread this does nothing: only the main thread is ever interrupted.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)

    before: dict[int, object] = {}
    try:
        for number in POLITE:
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
