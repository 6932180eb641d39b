import subprocess
import sys
import time

from horizont.monitoring.clock import now_s


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
