"""Where the time of each training step went, noted at well under a microsecond a mark."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from horizont.monitoring.clock import now_s
from horizont.records.schema import PHASES, STEP_KINDS

LOAD, FORWARD, BACKWARD, WAITING, COMMUNICATION, UPDATE = range(len(PHASES))

_UNMEASURED_PHASES = [math.nan] * len(PHASES)


class StepLog:
    """The steps of one worker.

    A step is ``begin``, any number of ``mark``, and ``end``; each is now, unless it is told when
    it was. Between ``begin`` and ``end`` only a list of six floats is touched; the arrays are
    written once a step, after its last reading of the clock.

    Parameters
    ----------
    capacity
        The number of steps to make room for. More steps double the room, which costs a copy.
    worker
        The rank of the worker, repeated in every row.
    """

    __slots__ = (
        "_begun_s",
        "_flags",
        "_last_s",
        "_marks",
        "_ready_s",
        "_seconds",
        "_whole",
        "steps",
        "worker",
    )

    def __init__(self, capacity: int, worker: int = 0) -> None:
        self.worker = worker
        self.steps = 0
        rows = max(capacity, 1)
        self._seconds = np.full((rows, len(PHASES)), math.nan)
        self._whole = np.full((rows, 4), math.nan)  # start_s, step_s, loss, ready_s
        self._flags = np.zeros((rows, 2), dtype=np.int64)  # examples, place in KINDS
        self._marks = _UNMEASURED_PHASES.copy()
        self._begun_s = self._last_s = self._ready_s = math.nan

    def begin(self, at_s: float | None = None) -> None:
        """Start a step."""
        self._marks = _UNMEASURED_PHASES.copy()
        self._begun_s = self._last_s = now_s() if at_s is None else at_s
        self._ready_s = math.nan

    def mark(self, phase: int, at_s: float | None = None) -> None:
        """Book the time since the last mark (or `begin`) on a phase such as `FORWARD`."""
        time_s = now_s() if at_s is None else at_s
        if phase == COMMUNICATION:
            self._ready_s = self._last_s
        marks = self._marks
        before_s = marks[phase]
        spent_s = time_s - self._last_s
        # A phase not booked yet is NaN, the only value that differs from itself.
        marks[phase] = spent_s if before_s != before_s else before_s + spent_s  # noqa: PLR0124
        self._last_s = time_s

    def end(
        self,
        examples: int,
        loss: float = math.nan,
        kind: str = "timed",
        at_s: float | None = None,
    ) -> None:
        """End the step and write its row.

        Parameters
        ----------
        examples
            The number of examples that this worker trained on in the step.
        loss
            The loss, if it is known without waiting for it; else see `set_loss`.
        kind
            One of `KINDS`: whether the step belongs to the warm-up, which is left out of the
            timing, was left alone, or was slowed by clocks between its phases or by a
            profiler.
        """
        end_s = now_s() if at_s is None else at_s
        row = self.steps
        if row == len(self._whole):
            self._grow()
        self._seconds[row] = self._marks
        self._whole[row] = (self._begun_s, end_s - self._begun_s, loss, self._ready_s)
        self._flags[row] = (examples, STEP_KINDS.index(kind))
        self.steps = row + 1

    def set_loss(self, step: int, loss: float) -> None:
        """Fill in the loss of an ended step, counted from 0."""
        if not 0 <= step < self.steps:
            raise IndexError(f"step {step} has not ended; there are {self.steps}")
        self._whole[step, 2] = loss

    def table(self) -> pa.Table:
        """Return a row per step; seconds in every column that ends in ``_s``.

        A phase that was not measured is NaN, never zero. ``ready_s`` is the moment from which on
        the worker did nothing but exchange: until then it computed.
        """
        count = self.steps
        columns: dict[str, npt.NDArray[Any]] = {
            "step": np.arange(count, dtype=np.int64),
            "worker": np.full(count, self.worker, dtype=np.int64),
            "kind": np.array(STEP_KINDS, dtype=object)[self._flags[:count, 1]],
            "examples": self._flags[:count, 0].copy(),
            "start_s": self._whole[:count, 0].copy(),
            "step_s": self._whole[:count, 1].copy(),
        }
        for index, phase in enumerate(PHASES):
            columns[f"{phase}_s"] = self._seconds[:count, index].copy()
        columns["loss"] = self._whole[:count, 2].copy()
        columns["gradients_ready_s"] = self._whole[:count, 3].copy()
        # from_pandas=False is the default here: NaN stays NaN and is not turned into null.
        return pa.table(columns)

    def _grow(self) -> None:
        """Double the room."""
        self._seconds = np.concatenate([self._seconds, np.full_like(self._seconds, math.nan)])
        self._whole = np.concatenate([self._whole, np.full_like(self._whole, math.nan)])
        self._flags = np.concatenate([self._flags, np.zeros_like(self._flags)])
