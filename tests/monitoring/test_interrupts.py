"""Interrupts wait for what must not be cut in two."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from horizont.monitoring.process_control import defer_interrupts


def test_an_interrupt_comes_after_the_block() -> None:
    reached = []

    def work() -> None:
        with defer_interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached


def test_inner_blocks_wait_for_the_outer_one() -> None:
    reached = []

    def work() -> None:
        with defer_interrupts():
            with defer_interrupts():
                signal.raise_signal(signal.SIGINT)
            reached.append("the end of the outer block")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached


def test_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with defer_interrupts():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_thread_is_never_interrupted() -> None:
    reached = []

    def work() -> None:
        with defer_interrupts():
            reached.append("the block")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert reached


#: A program that is interrupted while it forks, as exactly as a user hardly can.
FORKED = """
import os, signal
from pathlib import Path
from horizont.modeldiff.process import Limits, SideProcess
from horizont.modeldiff.sides import SideSpec
from horizont.monitoring.noise import measure_noise
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
"""


@pytest.mark.parametrize(
    "start",
    [
        "measure_noise(80.0, lambda number: None)",
        "side = SideSpec('A', 'plain', 'plain', Path('r'), 't', sys.executable, {});"
        "SideProcess(side, Path(sys.argv[1]), Limits());time.sleep(60)",
    ],
)
def test_an_interrupt_during_a_fork_is_not_lost(start: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import sys, time\n{FORKED}\n{start}", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert "Exception ignored" not in done.stderr
