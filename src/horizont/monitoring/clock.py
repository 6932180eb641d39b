"""The one clock of a run: monotonic, and shared by all processes of a machine.

On Linux `time.monotonic` reads ``CLOCK_MONOTONIC``: seconds since the machine started, the same
number in every process, never set back by a change of the wall clock. That makes the steps of
one worker, the steps of another and the samples of a third process comparable without any
correction. `time.perf_counter` reads the same clock there but promises nothing across processes,
and ``CLOCK_MONOTONIC_RAW`` ticks at the oscillator's own rate, not in seconds. Between machines
the clock means nothing.
"""

from __future__ import annotations

import time

now_s = time.monotonic
"""Read the clock, in seconds. A plain alias: a wrapper would double the cost of a call."""
