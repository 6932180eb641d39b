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
_SCRIPT = """
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


class WorkProcess:
    """A process that executes commands on its standard input."""

    def __init__(self, **launch: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **(launch or {"start_new_session": True}),
        )
        self.pid = self.process.pid

    def command(self, word: str, number: float = 0) -> None:
        """Send a command and wait until it is done."""
        self.send(word, number)
        assert self.process.stdout.readline() == "done\n"

    def send(self, word: str, number: float = 0) -> None:
        """Send a command without waiting."""
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it and reap it."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def _process_factory() -> Iterator[Callable[..., WorkProcess]]:
    processes: list[WorkProcess] = []

    def start(**launch: object) -> WorkProcess:
        processes.append(WorkProcess(**launch))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


start_process = pytest.fixture(_process_factory, name="start_process")
start_process_for_module = pytest.fixture(
    _process_factory, name="start_process_for_module", scope="module"
)


@pytest.fixture
def process(start_process: Callable[..., WorkProcess]) -> WorkProcess:
    return start_process()


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
def kill_at_end() -> Iterator[list[int]]:
    """Process numbers to be killed at the end, whatever happened."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
