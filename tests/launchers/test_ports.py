"""Ports are free, and no other run's, as long as they are reserved."""

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

#: Picks from few ports, so that several processes are sure to collide.
RESERVING_PROGRAM = """
import sys
from horizont.launchers import local
few = range(int(sys.argv[2]), int(sys.argv[2]) + 40)
local.candidate_ports, local.MAX_ATTEMPTS = lambda: few, len(few)
print("ready", flush=True)
sys.stdin.readline()
with local.reserve_ports(["127.0.0.1"] * int(sys.argv[1]), 0) as ports:
    print(*ports, flush=True)
    sys.stdin.read()
"""


@contextmanager
def reserving_process(count: int, first: int = 20_000) -> Iterator[subprocess.Popen[str]]:
    """Start a process that reserves ports after `start` and exits with its standard input."""
    command = [sys.executable, "-c", RESERVING_PROGRAM, str(count), str(first)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert read_line(process) == "ready"
        yield process
        process.kill()


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("now\n")
    process.stdin.flush()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_concurrent_reservations_never_share_a_port() -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(reserving_process(10)) for _ in range(3)]
        for process in processes:
            start(process)
        ports = [port for process in processes for port in read_line(process).split()]
    assert len(ports) == len(set(ports)) == 30


def test_a_reserved_port_can_be_listened_on_and_not_reserved_again() -> None:
    with reserve_ports([HERE, HERE], 0) as ports:
        with socket.create_server((HERE, ports[0])):
            pass
        for port in ports:
            with pytest.raises(UserError, match=rf"topology\.base_port: {port}"):
                reserve_ports([HERE], port).__enter__()
    with reserve_ports([HERE], ports[1]) as again:
        assert again == ports[1:]


def test_a_killed_process_frees_its_ports() -> None:
    with reserving_process(1, first=30_000) as process:
        start(process)
        port = int(read_line(process))
        with pytest.raises(UserError, match="base_port"), reserve_ports([HERE], port):
            pass
    with reserve_ports([HERE], port) as ports:
        assert ports == [port]


def test_a_failed_reservation_frees_its_ports() -> None:
    with reserve_ports([HERE], 0) as (port,):
        pass
    with pytest.raises(UserError, match="addresses"), reserve_ports([HERE, "192.0.2.1"], port):
        pass
    with reserve_ports([HERE], port) as ports:
        assert ports == [port]


def test_a_given_port_in_use_is_an_error() -> None:
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]
        with (
            pytest.raises(UserError, match=rf"topology\.base_port: {port}"),
            reserve_ports([HERE], port),
        ):
            pass


def test_a_port_in_use_is_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    with reserve_ports([HERE], 0) as (free,), socket.create_server((HERE, 0)) as listener:
        monkeypatch.setattr(local, "MAX_ATTEMPTS", 2)
        monkeypatch.setattr(local, "candidate_ports", lambda: [free, listener.getsockname()[1]])
        with pytest.raises(UserError, match="free ports"), reserve_ports([HERE], 0):
            pass
    with socket.create_server((HERE, 0)) as listener:
        monkeypatch.setattr(local, "candidate_ports", lambda: [free, listener.getsockname()[1]])
        for _ in range(8):
            with reserve_ports([HERE], 0) as ports:
                assert ports == [free]


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
@pytest.mark.parametrize("base_port", [0, 31_000])
def test_an_address_of_another_machine_is_an_error(host: str, base_port: int) -> None:
    with pytest.raises(UserError, match=r"topology\.addresses"), reserve_ports([host], base_port):
        pass


def test_consecutive_ports_end_at_the_last_port() -> None:
    with pytest.raises(UserError, match="65536"), reserve_ports([HERE], 65_536):
        pass


@pytest.mark.parametrize(
    ("content", "first", "last"),
    [
        ("32768\t60999\n", 10_000, 32_767),
        ("10000 30000", 30_001, 65_535),
        ("1024 65535", 10_000, 65_535),
    ],
)
def test_ports_of_outgoing_connections_are_not_picked(
    content: str, first: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "EPHEMERAL_RANGE_FILE", tmp_path / "range")
    local.EPHEMERAL_RANGE_FILE.write_text(content)
    candidates = local.candidate_ports()
    assert (candidates[0], candidates[-1]) == (first, last)
