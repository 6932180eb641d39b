"""Real processes for the tests to watch. None of them outlives the test, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

# A process that forks, orphans, burns and allocates on demand. It ends when the pipe to its
# standard input closes, and its children when the pipe that only it can write closes: both
# happen when the test process dies, even by SIGKILL.
_TREE = """
import os, sys, time

def fork(reader, writer, orphan=False, leave_group=False):
    if os.fork():
        return
    os.close(writer)
    os.close(0)
    if orphan:
        if leave_group:
            os.setpgid(0, 0)
        if os.fork():
            os._exit(0)
    os.read(reader, 1)
    os._exit(0)

held = []
reader, writer = os.pipe()
while line := sys.stdin.readline():
    word, number = line.split()
    if word == "grow":
        for _ in range(int(number)):
            fork(reader, writer)
    elif word == "orphan":
        fork(reader, writer, orphan=True, leave_group=number == "1")
        os.wait()
    elif word == "shrink":
        os.close(writer)
        for _ in range(int(number)):
            os.wait()
        reader, writer = os.pipe()
    elif word == "burn":
        end = time.process_time() + float(number)
        while time.process_time() < end:
            pass
    elif word == "hold":
        held.append(b"x" * (int(number) << 20))
    print("done", flush=True)
"""


class Tree:
    """A process that does what it is told."""

    def __init__(self, **launch: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", _TREE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **(launch or {"start_new_session": True}),
        )
        self.pid = self.process.pid

    def tell(self, word: str, number: float = 0) -> None:
        """Give an order and wait until it is done."""
        self.begin(word, number)
        assert self.process.stdout.readline() == "done\n"

    def begin(self, word: str, number: float = 0) -> None:
        """Give an order and do not wait."""
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it and reap it."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def _planting() -> Iterator[Callable[..., Tree]]:
    trees: list[Tree] = []

    def start(**launch: object) -> Tree:
        trees.append(Tree(**launch))
        return trees[-1]

    yield start
    for tree in trees:
        tree.kill()


plant = pytest.fixture(_planting, name="plant")
plant_for_module = pytest.fixture(_planting, name="plant_for_module", scope="module")


@pytest.fixture
def tree(plant: Callable[..., Tree]) -> Tree:
    return plant()


def wait_until(condition: Callable[[], object], timeout_s: float = 120.0) -> None:
    """Wait for a condition; the limit only keeps a broken test from hanging."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    return wait_until


@pytest.fixture
def reaper() -> Iterator[list[int]]:
    """Process numbers to be killed at the end, whatever happened."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
