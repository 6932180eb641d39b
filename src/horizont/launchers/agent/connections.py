"""The launcher's side: a listening socket for the agents, and a connection to each of them."""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from horizont.errors import ConnectionRefused, HostLost
from horizont.launchers.agent.wire import Channel, Message

#: Seconds between two pings, which renew the leases.
PING_S = 1.0

#: Seconds to wait for a reply to a request that reads or writes files, or ends processes.
REPLY_TIMEOUT_S = 120.0

#: Seconds at least to wait for any other reply: an agent that does not give it has stopped.
SHORT_REPLY_S = 10.0

SHORT_REQUESTS = frozenset({"clock", "signal", "last_error", "release"})

#: Seconds for the first frame of an agent.
HELLO_TIMEOUT_S = 5.0

#: Connections, beside those of the agents, whose first frame is awaited at once; further ones are
#: closed.
MAX_HANDSHAKES = 64


class AgentConnection:
    """A connection to the agent of a host.

    A thread reads its frames. `on_frame` is called there with those that are no replies, and
    `on_lost` once, when the host is lost; `explain_loss` returns why, if the scheduler of the hosts
    has ended the connection.

    Attributes
    ----------
    facts
        What the agent has sent about its host, see `horizont.launchers.agent.facts`.
    """

    def __init__(self, channel: Channel, facts: Message, lease_s: float) -> None:
        self.facts = facts
        self.lost = ""
        self.on_frame: Callable[[Message], None] = lambda message: None
        self.on_lost: Callable[[], None] = lambda: None
        self.explain_loss: Callable[[], str] = str
        self._channel = channel
        self._lease_s = lease_s
        self._ids = itertools.count(1)
        self._replies: dict[int, queue.SimpleQueue[tuple[Message, bytes]]] = {}
        self._heard_s = time.monotonic()
        self._losing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True, name="agent-reader")
        self._reader.start()

    @property
    def node(self) -> str:
        """The name of the machine."""
        return str(self.facts["node"])

    def request(self, kind: str, **fields: Any) -> Message:
        """Send a request and return its reply; `HostLost` if there is none, or it is an error."""
        *_, (reply, _) = self.exchange(kind, **fields)
        return reply

    def exchange(self, kind: str, **fields: Any) -> Iterator[tuple[Message, bytes]]:
        """Send a request and yield the frames of the reply, the reply itself last."""
        number = next(self._ids)
        replies = self._replies[number] = queue.SimpleQueue()
        try:
            self.post(kind, id=number, **fields)
            while True:
                message, body = self._wait_reply(replies, kind)
                yield message, body
                if message["kind"] == "reply":
                    return
        finally:
            del self._replies[number]

    def post(self, kind: str, body: bytes = b"", **fields: Any) -> None:
        """Send a request without waiting; `HostLost` if the host is lost."""
        if not self.lost:
            try:
                self._channel.send({"kind": kind, **fields}, body)
            except OSError as error:
                self._lose_by(error)
        if self.lost:
            raise HostLost(self.lost)

    def check(self) -> None:
        """Send what renews the lease of the host; count it as lost if it has been silent too long.

        One that owes a reply is busy with it; should it be gone, its kernel no longer confirms
        what is sent to it, which ends the connection.
        """
        if self.lost:
            return
        silent_s = time.monotonic() - self._heard_s
        if silent_s > self._lease_s + PING_S and not self._replies:
            self.lose(f"no sign of life for {silent_s:.1f} s")
            return
        if not self._channel.is_sending:  # which renews the lease, too
            with contextlib.suppress(HostLost):
                self.post("ping")

    def lose(self, reason: str) -> None:
        """Count the host as lost and close the connection; only the first reason counts."""
        with self._losing:
            if self.lost:
                return
            self.lost = f"host {self.node} is lost: {reason}"
        self._channel.close()
        for replies in list(self._replies.values()):
            replies.put(({"kind": "reply", "error": self.lost}, b""))
        self.on_lost()

    def close(self) -> None:
        """Close the connection, which ends the session of the agent."""
        with contextlib.suppress(HostLost):
            self.post("close")
        self.on_lost = lambda: None
        self.lose("the session is over")

    def _wait_reply(
        self, replies: queue.SimpleQueue[tuple[Message, bytes]], kind: str
    ) -> tuple[Message, bytes]:
        if self.lost and replies.empty():
            raise HostLost(self.lost)
        short_s = max(SHORT_REPLY_S, self._lease_s + PING_S)
        timeout_s = short_s if kind in SHORT_REQUESTS else REPLY_TIMEOUT_S
        try:
            message, body = replies.get(timeout=timeout_s)
        except queue.Empty:
            self.lose(f"no reply to {kind!r} within {timeout_s:g} s")
            raise HostLost(self.lost) from None
        if "error" in message:
            raise HostLost(
                message["error"] if self.lost else f"host {self.node}: {message['error']}"
            )
        return message, body

    def _read(self) -> None:
        try:
            while True:
                message, body = self._channel.receive()
                self._heard_s = time.monotonic()
                if message["kind"] in ("reply", "part"):
                    if message["id"] is None:  # something that wanted no reply has failed
                        raise ConnectionRefused(message["error"])
                    replies = self._replies.get(message["id"])
                    if replies is not None:
                        replies.put((message, body))
                else:
                    self.on_frame(message)
        except (OSError, ConnectionRefused, ValueError, KeyError) as error:
            self._lose_by(error)

    def _lose_by(self, error: Exception) -> None:
        if not self.lost:
            self.lose(self.explain_loss() or _reason(error))


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class AgentListener:
    """A listening socket for agents that know the secret.

    Each connection has a thread until its first frame, so that a slow or a hostile one delays no
    other; it is closed without an answer unless that frame is authentic.
    """

    def __init__(
        self, address: str, port: int, secret: str, lease_s: float, agents: int = 0
    ) -> None:
        self._secret = secret
        self._lease_s = lease_s
        self._arrived: queue.SimpleQueue[AgentConnection] = queue.SimpleQueue()
        self._handshakes = threading.Semaphore(MAX_HANDSHAKES + agents)
        self._socket = socket.create_server((address, port))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True, name="agent-listener").start()

    def wait(self, timeout_s: float) -> AgentConnection | None:
        """Return the next agent that has connected; None if there is none in time."""
        try:
            return self._arrived.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Listen no longer."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if not self._handshakes.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        try:
            timeout_ms = int(1e3 * (self._lease_s + PING_S))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
            channel = Channel(connection, self._secret, "launcher")
            facts, _ = channel.receive(HELLO_TIMEOUT_S)
            self._arrived.put(AgentConnection(channel, facts, self._lease_s))
        except (OSError, ConnectionRefused, ValueError, KeyError):
            connection.close()
        finally:
            self._handshakes.release()
