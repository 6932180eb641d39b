"""Reading the clock inside MXNet's engine.

A reading is queued like any operation and runs when its turn has come, so that the program can
queue what follows instead of waiting. The engine knows of no order but that of who reads and who
changes which array; an array that a reading claims to change holds back whatever needs it next.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from time import monotonic
from typing import Any

from horizont.frameworks.mxnet.compat import mx

#: By the number of the reading, until its step is told.
_read_s: dict[int, float] = {}
_numbers = itertools.count(1)  # a null pointer is no number


def _note(_: int | None, number: int) -> None:
    """Be called by a thread of the engine."""
    _read_s[number] = monotonic()


_read_clock = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(_note)


class _Context(ctypes.Structure):
    """The engine's word for a device."""

    _fields_ = (("type", ctypes.c_int), ("number", ctypes.c_int32))


_CPU = _Context(mx.cpu().device_typeid, 0)
_NORMAL = ctypes.c_int(0)
#: The engine puts operations of no priority together and runs them as one.
_ALONE = 1


class StampedStep:
    """The phases of a step, each with its end as the engine comes to it."""

    def __init__(self) -> None:
        self._ends: list[tuple[str, int]] = []
        # Each reading changes it, so they are made in order, and the last can be waited for.
        self._turn = mx.nd.zeros(1)

    def ends(self, phase: str, *, after: Sequence[Any] = (), holding: Sequence[Any] = ()) -> None:
        """Queue the end of a phase.

        Parameters
        ----------
        after
            Arrays that are there when it has ended.
        holding
            Arrays likewise; what reads or changes one of them next does not start before.
        """
        number = next(_numbers)
        changed = [*holding, self._turn]
        mx.base.check_call(
            mx.base._LIB.MXEnginePushSyncND(
                _read_clock,
                ctypes.c_void_p(number),
                None,
                ctypes.byref(_CPU),
                _handles(after),
                len(after),
                _handles(changed),
                len(changed),
                ctypes.byref(_NORMAL),
                _ALONE,
                b"read_clock",
            )
        )
        self._ends.append((phase, number))

    def told(self) -> list[tuple[str, float]]:
        """Wait, and tell the phases with their ends, in seconds of the monotonic clock."""
        self._turn.wait_to_read()
        return [(phase, _read_s.pop(number)) for phase, number in self._ends]


def _handles(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.handle for array in arrays))
