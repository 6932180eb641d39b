"""The one clock of a run: monotonic, and shared by all processes of a machine.

On Linux `time.monotonic` reads ``CLOCK_MONOTONIC``: seconds since the machine started, the same
number in every process, never set back by a change of the wall clock. That makes the steps of
one worker, the steps of another and the samples of a third process comparable without any
correction. `time.perf_counter` reads the same clock there but promises nothing across processes,
and ``CLOCK_MONOTONIC_RAW`` ticks at the oscillator's own rate, not in seconds. Between machines
the clock means nothing: translate with a `ClockAnchor` of each.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

now_s = time.monotonic
"""Read the clock, in seconds. A plain alias: a wrapper would double the cost of a call."""

_TRIES = 5


@dataclass(frozen=True)
class ClockAnchor:
    """One moment on both clocks, taken once a run, to translate the rest.

    Attributes
    ----------
    monotonic_s
        The moment on the monotonic clock, in seconds.
    unix_s
        The same moment in seconds since 1970, UTC.
    uncertainty_s
        How far apart the two readings may be, in seconds.
    """

    monotonic_s: float
    unix_s: float
    uncertainty_s: float

    def to_unix_s(self, time_s: float) -> float:
        """Translate a monotonic time to seconds since 1970, both in seconds."""
        return self.unix_s + (time_s - self.monotonic_s)

    def as_dict(self) -> dict[str, float]:
        """Return the fields as plain values for a JSON file."""
        return asdict(self)


def take_anchor() -> ClockAnchor:
    """Read both clocks at once: the tightest of a few tries, each bracketed by two readings."""
    return min((_bracket() for _ in range(_TRIES)), key=lambda anchor: anchor.uncertainty_s)


def _bracket() -> ClockAnchor:
    before_s = now_s()
    unix_s = time.time()
    after_s = now_s()
    return ClockAnchor((before_s + after_s) / 2, unix_s, (after_s - before_s) / 2)
