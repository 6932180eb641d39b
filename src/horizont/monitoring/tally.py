"""How punctual the sampler was, and what it cost."""

from __future__ import annotations

import time
from array import array
from statistics import median
from typing import Any


class Tally:
    """Counts samples, missed ticks and lateness.

    Attributes
    ----------
    clock_set_back
        How often the clock went back.
    """

    def __init__(self) -> None:
        self._missed = 0
        self.clock_set_back = 0
        self._late_s = array("d")

    def count(self, missed: int, late_s: float) -> None:
        """Book a sample that came `late_s` seconds after it was due, after `missed` ticks."""
        self._missed += missed
        self._late_s.append(late_s)

    def report(self) -> dict[str, Any]:
        """Return the sums as plain values; seconds in what ends in ``_s``.

        `sampler_cpu_s` covers the whole process, its start included.
        """
        late_s = self._late_s
        return {
            "samples": len(late_s),
            "missed": self._missed,
            "clock_set_back": self.clock_set_back,
            "late_median_s": median(late_s) if late_s else None,
            "late_max_s": max(late_s, default=None),
            "sampler_cpu_s": time.process_time(),
        }
