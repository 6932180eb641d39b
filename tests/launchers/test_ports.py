"""Ports are free, and nobody else's, as long as they are held."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from horizont.errors import UserError
from horizont.launchers import local
from horizont.launchers.local import reserve_ports

HERE = "127.0.0.1"

#: Draws from few ports, so that several processes are sure to meet.
HOLDER = """
import sys
from horizont.launchers import local
few = range(int(sys.argv[2]), int(sys.argv[2]) + 40)
local.candidate_ports, local.MAX_DRAWS = lambda: few, len(few)
print("ready", flush=True)
sys.stdin.readline()
with local.reserve_ports(["127.0.0.1"] * int(sys.argv[1]), 0) as held:
    print(*held, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(count: int, first: int = 20_000) -> Iterator[subprocess.Popen[str]]:
    """Start a process that takes ports when told to; it ends with its standard input."""
    words = [sys.executable, "-c", HOLDER, str(count), str(first)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert heard(process) == "ready"
        yield process
        process.kill()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("now\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_processes_that_take_ports_at_once_never_share_one() -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(holder(10)) for _ in range(3)]
        for process in processes:
            tell(process)
        taken = [port for process in processes for port in heard(process).split()]
    assert len(taken) == len(set(taken)) == 30


def test_a_held_port_can_be_listened_on_and_not_be_asked_for() -> None:
    with reserve_ports([HERE, HERE], 0) as held:
        with socket.create_server((HERE, held[0])):
            pass
        for port in held:
            with pytest.raises(UserError, match=rf"topology\.base_port: {port}"):
                reserve_ports([HERE], port).__enter__()
    with reserve_ports([HERE], held[1]) as again:
        assert again == held[1:]


def test_a_killed_holder_holds_nothing() -> None:
    with holder(1, first=30_000) as process:
        tell(process)
        port = int(heard(process))
        with pytest.raises(UserError, match="base_port"), reserve_ports([HERE], port):
            pass
    with reserve_ports([HERE], port) as held:
        assert held == [port]


def test_a_failure_holds_nothing() -> None:
    with reserve_ports([HERE], 0) as (port,):
        pass
    with pytest.raises(UserError, match="addresses"), reserve_ports([HERE, "192.0.2.1"], port):
        pass
    with reserve_ports([HERE], port) as held:
        assert held == [port]


def test_a_port_on_which_someone_listens_is_named() -> None:
    with socket.create_server((HERE, 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(UserError, match=rf"topology\.base_port: {port}"),
            reserve_ports([HERE], port),
        ):
            pass


def test_a_port_on_which_someone_listens_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    with reserve_ports([HERE], 0) as (free,), socket.create_server((HERE, 0)) as taken:
        monkeypatch.setattr(local, "MAX_DRAWS", 2)
        monkeypatch.setattr(local, "candidate_ports", lambda: [free, taken.getsockname()[1]])
        with pytest.raises(UserError, match="free ports"), reserve_ports([HERE], 0):
            pass
    with socket.create_server((HERE, 0)) as taken:
        monkeypatch.setattr(local, "candidate_ports", lambda: [free, taken.getsockname()[1]])
        for _ in range(8):
            with reserve_ports([HERE], 0) as held:
                assert held == [free]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
@pytest.mark.parametrize("base_port", [0, 31_000])
def test_a_foreign_host_is_named(host: str, base_port: int) -> None:
    with pytest.raises(UserError, match=r"topology\.addresses"), reserve_ports([host], base_port):
        pass


def test_consecutive_ports_end_somewhere() -> None:
    with pytest.raises(UserError, match="65536"), reserve_ports([HERE], 65_536):
        pass


@pytest.mark.parametrize(
    ("told", "first", "last"),
    [
        ("32768\t60999\n", 10_000, 32_767),
        ("10000 30000", 30_001, 65_535),
        ("1024 65535", 10_000, 65_535),
    ],
)
def test_ports_of_outgoing_connections_are_not_drawn(
    told: str, first: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "EPHEMERAL_RANGE_FILE", tmp_path / "range")
    local.EPHEMERAL_RANGE_FILE.write_text(told)
    drawn = local.candidate_ports()
    assert (drawn[0], drawn[-1]) == (first, last)
