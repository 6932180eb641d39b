"""When samples are due: at absolute times, so that a late one does not shift the next."""

from __future__ import annotations

import math
import random
from typing import NamedTuple


class Deadline(NamedTuple):
    """When the next sample is due.

    Attributes
    ----------
    tick
        The number of the tick since the start; skipped ticks keep their numbers.
    due_s
        The time at which it is due, in seconds on the caller's clock.
    missed
        How many ticks were skipped just before it because their time had passed.
    """

    tick: int
    due_s: float
    missed: int


class Deadlines:
    """Ticks at ``start_s + tick * interval_s``, each moved a little at random.

    Parameters
    ----------
    start_s
        The time of tick 0, in seconds.
    interval_s
        The distance of two ticks, in seconds.
    jitter
        The largest move of a tick either way, as a share of the interval, below one half. It
        keeps the samples from falling into step with what they watch, whose period may be a
        multiple of theirs. A move belongs to its tick alone: moves do not add up.
    seed
        Seeds the moves.
    """

    def __init__(self, start_s: float, interval_s: float, jitter: float = 0.0, seed: int = 0):
        self.start_s = start_s
        self.interval_s = interval_s
        self.jitter = jitter
        self._random = random.Random(seed)
        self._tick = -1

    def next(self, now_s: float) -> Deadline:
        """Return the first tick after the last one that is not already over at `now_s`.

        A tick is over when the following one is due: being late by less than an interval is
        recorded as lateness, by more as missed ticks.
        """
        wanted = self._tick + 1
        current = math.floor((now_s - self.start_s) / self.interval_s)
        self._tick = max(wanted, current)
        move = self.jitter * self._random.uniform(-1.0, 1.0)
        due_s = self.start_s + (self._tick + move) * self.interval_s
        return Deadline(self._tick, due_s, self._tick - wanted)

    def go_on_from(self, now_s: float) -> None:
        """Make the tick given last due again, now: the clock was set back."""
        self.start_s = now_s - self._tick * self.interval_s
        self._tick -= 1
