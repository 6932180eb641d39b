"""The frames of the agents: what is not authentic, too large or late gets nothing."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from horizont.errors import ConnectionRefused
from horizont.launchers.agent import wire
from horizont.launchers.agent.connections import MAX_HANDSHAKES, AgentListener
from horizont.launchers.agent.wire import PROTOCOL, Channel, new_secret


def connect(secret_of_launcher: str, secret_of_agent: str) -> tuple[Channel, Channel]:
    left, right = socket.socketpair(socket.AF_UNIX)
    with ThreadPoolExecutor() as threads:
        launcher = threads.submit(tcp_channel, left, secret_of_launcher, "launcher")
        agent = threads.submit(tcp_channel, right, secret_of_agent, "agent")
        return launcher.result(), agent.result()


def tcp_channel(connection: socket.socket, secret: str, end: wire.End) -> Channel:
    """Return a channel over any stream socket: one pair of ends in a process needs no port."""

    class Stream:
        def setsockopt(self, *_: object) -> None:
            return

        def __getattr__(self, name: str) -> object:
            return getattr(connection, name)

    return Channel(Stream(), secret, end)  # type: ignore[arg-type]


@pytest.fixture
def listener() -> Iterator[tuple[AgentListener, str]]:
    secret = new_secret()
    listener = AgentListener("127.0.0.1", 0, secret, lease_s=3.0)
    yield listener, secret
    listener.close()


def test_frames_arrive_in_both_directions_with_their_bodies() -> None:
    secret = new_secret()
    launcher, agent = connect(secret, secret)
    for number in range(3):
        launcher.send({"kind": "write", "number": number}, b"x" * number)
        assert agent.receive() == ({"kind": "write", "number": number}, b"x" * number)
        agent.send({"kind": "reply", "text": "ü"})
        assert launcher.receive() == ({"kind": "reply", "text": "ü"}, b"")


def test_a_frame_of_another_secret_is_refused() -> None:
    launcher, agent = connect(new_secret(), new_secret())
    launcher.send({"kind": "start"})
    with pytest.raises(ConnectionRefused, match="secret"):
        agent.receive()


class Recorder:
    """A stream that keeps what was sent through it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.sent: list[bytes] = []

    def setsockopt(self, *_: object) -> None:
        return

    def sendall(self, content: bytes) -> None:
        self.sent.append(content)
        self.connection.sendall(content)

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)


@pytest.mark.parametrize("attack", ["replay", "reflect", "change", "truncate"])
def test_a_recorded_frame_cannot_be_used_again(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "FRAME_TIMEOUT_S", 0.5)
    left, right = socket.socketpair(socket.AF_UNIX)
    secret, recorder = new_secret(), Recorder(left)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(tcp_channel, right, secret, "agent")
        launcher = Channel(recorder, secret, "launcher")  # type: ignore[arg-type]
        agent = waiting.result()
    launcher.send({"kind": "signal", "number": 9})
    frame = recorder.sent[-1]
    if attack == "reflect":
        right.sendall(frame)
        with pytest.raises(ConnectionRefused, match="secret"):
            launcher.receive()
        return
    if attack == "replay":
        assert agent.receive()[0]["kind"] == "signal"
    else:  # the frame itself was lost
        right.recv(len(frame), socket.MSG_WAITALL)
    changed = frame[:-2] + bytes([frame[-2] ^ 1]) + frame[-1:]
    left.sendall({"replay": frame, "change": changed, "truncate": frame[:-3]}[attack])
    with pytest.raises(
        ConnectionRefused, match="longer than" if attack == "truncate" else "secret"
    ):
        agent.receive()


def test_a_huge_frame_is_refused_before_it_is_read() -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(tcp_channel, right, new_secret(), "launcher")
        left.sendall(PROTOCOL + bytes(32))
        launcher = waiting.result()
    left.sendall(struct.pack("!II", 2**32 - 1, 2**32 - 1))
    with pytest.raises(ConnectionRefused, match="a frame of"):
        launcher.receive()


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        b"",
        PROTOCOL + bytes(32) + b"\0" * 200,
        bytes(range(256)) * 64,
    ],
)
def test_a_stranger_gets_no_answer_and_stops_nothing(
    listener: tuple[AgentListener, str], content: bytes
) -> None:
    accepting, secret = listener
    with socket.create_connection(("127.0.0.1", accepting.port)) as stranger:
        stranger.settimeout(20)
        received = b""
        try:
            stranger.sendall(content)
            stranger.shutdown(socket.SHUT_WR)
            while part := stranger.recv(4096):
                received += part
        except (ConnectionError, OSError):
            pass  # closed by the launcher
    assert len(received) <= len(PROTOCOL) + 32  # the nonce, which says nothing
    assert accepting.wait(0) is None
    expect_an_agent(accepting, secret)


def test_slow_strangers_hold_up_no_agent(listener: tuple[AgentListener, str]) -> None:
    accepting, secret = listener
    strangers = [
        socket.create_connection(("127.0.0.1", accepting.port)) for _ in range(MAX_HANDSHAKES - 1)
    ]
    try:
        for stranger in strangers:
            stranger.sendall(PROTOCOL[:3])
        start_s = time.monotonic()
        expect_an_agent(accepting, secret)
        assert time.monotonic() - start_s < wire.FRAME_TIMEOUT_S
    finally:
        for stranger in strangers:
            stranger.close()


def expect_an_agent(listener: AgentListener, secret: str) -> None:
    """Connect as an agent does, and see that it arrives."""
    connection = socket.create_connection(("127.0.0.1", listener.port))
    channel = Channel(connection, secret, "agent")
    channel.send({"kind": "hello", "number": 3, "node": "n"})
    agent = listener.wait(10)
    assert agent is not None
    assert agent.facts["number"] == 3
    answering = threading.Thread(target=answer_clock, args=(channel,))
    answering.start()
    assert agent.request("clock")["time_s"] == 1.5
    answering.join()
    agent.close()
    channel.close()


def answer_clock(channel: Channel) -> None:
    message, _ = channel.receive()
    channel.send({"kind": "reply", "id": message["id"], "time_s": 1.5})
