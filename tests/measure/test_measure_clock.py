import subprocess
import sys
import time

import pytest

from horizont.measure import ClockAnchor, now_s, take_anchor


def test_the_clock_cannot_be_set_back():
    clock = time.get_clock_info("monotonic")
    assert clock.monotonic
    assert not clock.adjustable
    assert "CLOCK_MONOTONIC" in clock.implementation


def test_other_processes_read_the_same_clock():
    before = now_s()
    code = "from horizont.measure.clock import now_s; print(repr(now_s()))"
    there = float(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert before < there < now_s()


def test_an_anchor_translates_to_wall_time():
    anchor = take_anchor()
    assert anchor.uncertainty_s >= 0
    assert ClockAnchor(10.0, 1000.0, 0.0).to_unix_s(12.5) == 1002.5
    # Generous: the wall clock may be set between the two lines.
    assert anchor.to_unix_s(now_s()) == pytest.approx(time.time(), abs=5)
    assert ClockAnchor(**anchor.as_dict()) == anchor
