"""Interrupts wait for what must not be cut in two."""

from __future__ import annotations

import signal
import threading

import pytest

from horizont.measure.interrupts import interrupts_later


def test_an_interrupt_comes_after_the_block() -> None:
    reached = []

    def work() -> None:
        with interrupts_later():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached


def test_inner_blocks_wait_for_the_outer_one() -> None:
    reached = []

    def work() -> None:
        with interrupts_later():
            with interrupts_later():
                signal.raise_signal(signal.SIGINT)
            reached.append("the end of the outer block")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached


def test_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interrupts_later():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_thread_is_never_interrupted() -> None:
    reached = []

    def work() -> None:
        with interrupts_later():
            reached.append("the block")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert reached
