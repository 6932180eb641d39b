"""Interrupts wait for what must not be cut in two."""

from __future__ import annotations

import signal
import threading

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
