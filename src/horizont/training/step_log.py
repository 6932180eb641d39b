"""The log of training steps: timestamps of their phases, at well below a microsecond each."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from horizont.records.schema import PHASES, STEP_KINDS

LOAD, FORWARD, BACKWARD, WAITING, COMMUNICATION, UPDATE = range(len(PHASES))

_UNMEASURED_PHASES = [math.nan] * len(PHASES)


class StepLog:
    """The steps of one worker.

    A step is a call of `begin`, calls of `mark`, and a call of `end`, each at the current time or
    at a given one. Between `begin` and `end` only a list of six floats changes; the arrays are
    written once per step, after its last reading of the clock. More steps than the expected number,
    `capacity`, double it, which costs a copy.
    """

    __slots__ = (
        "_labels",
        "_last_s",
        "_marks",
        "_phases_s",
        "_ready_s",
        "_start_s",
        "_totals",
        "steps",
        "worker",
    )

    def __init__(self, capacity: int, worker: int = 0) -> None:
        self.worker = worker
        self.steps = 0
        rows = max(capacity, 1)
        self._phases_s = np.full((rows, len(PHASES)), math.nan)
        self._totals = np.full((rows, 4), math.nan)  # start_s, step_s, loss, ready_s
        self._labels = np.zeros((rows, 2), dtype=np.int64)  # examples, index in STEP_KINDS
        self._marks = _UNMEASURED_PHASES.copy()
        self._start_s = self._last_s = self._ready_s = math.nan

    def begin(self, at_s: float | None = None) -> None:
        """Start a step."""
        self._marks = _UNMEASURED_PHASES.copy()
        self._start_s = self._last_s = time.monotonic() if at_s is None else at_s
        self._ready_s = math.nan

    def mark(self, phase: int, at_s: float | None = None) -> None:
        """Record the time since the previous mark, or `begin`, as part of a phase."""
        time_s = time.monotonic() if at_s is None else at_s
        if phase == COMMUNICATION:
            self._ready_s = self._last_s
        marks = self._marks
        recorded_s = marks[phase]
        elapsed_s = time_s - self._last_s
        # A phase without a mark is NaN, the only value that differs from itself.
        marks[phase] = elapsed_s if recorded_s != recorded_s else recorded_s + elapsed_s  # noqa: PLR0124
        self._last_s = time_s

    def end(self, examples: int, kind: str = "timed", at_s: float | None = None) -> None:
        """Write the row of the step; `kind` is one of `STEP_KINDS`."""
        end_s = time.monotonic() if at_s is None else at_s
        row = self.steps
        if row == len(self._totals):
            self._grow()
        self._phases_s[row] = self._marks
        self._totals[row] = (self._start_s, end_s - self._start_s, math.nan, self._ready_s)
        self._labels[row] = (examples, STEP_KINDS.index(kind))
        self.steps = row + 1

    def set_loss(self, step: int, loss: float) -> None:
        """Set the loss of a step that has ended, counted from 0.

        It is not known at the end of a step without waiting for it.
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"step {step} has not ended; there are {self.steps}")
        self._totals[step, 2] = loss

    def table(self) -> pa.Table:
        """Return a row per step; seconds in every column that ends in ``_s``.

        A phase that was not measured is NaN, never zero. ``gradients_ready_s`` is the time at which
        the worker had computed its gradients and began to wait for their exchange.
        """
        count = self.steps
        columns: dict[str, npt.NDArray[Any]] = {
            "step": np.arange(count, dtype=np.int64),
            "worker": np.full(count, self.worker, dtype=np.int64),
            "kind": np.array(STEP_KINDS, dtype=object)[self._labels[:count, 1]],
            "examples": self._labels[:count, 0].copy(),
            "start_s": self._totals[:count, 0].copy(),
            "step_s": self._totals[:count, 1].copy(),
        }
        for index, phase in enumerate(PHASES):
            columns[f"{phase}_s"] = self._phases_s[:count, index].copy()
        columns["loss"] = self._totals[:count, 2].copy()
        columns["gradients_ready_s"] = self._totals[:count, 3].copy()
        # from_pandas=False is the default here: NaN stays NaN and is not turned into null.
        return pa.table(columns)

    def _grow(self) -> None:
        self._phases_s = np.concatenate([self._phases_s, np.full_like(self._phases_s, math.nan)])
        self._totals = np.concatenate([self._totals, np.full_like(self._totals, math.nan)])
        self._labels = np.concatenate([self._labels, np.zeros_like(self._labels)])
