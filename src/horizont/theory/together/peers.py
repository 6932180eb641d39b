"""Processes that send each other arrays over TCP, and count what they hand to the sockets."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: How long a process waits for another one.
PATIENCE_S = 240.0


class Peers(Protocol):
    """What a process can do with the others of its group.

    Attributes
    ----------
    rank, size
        Its own number, from 0 on, and how many they are.
    """

    rank: int
    size: int

    def send(self, values: Array, to: int) -> None:
        """Send an array to one of them."""
        ...

    def receive(self, shape: tuple[int, ...], source: int) -> Array:
        """Receive an array of a known shape from one of them."""
        ...

    def exchange(self, values: Array, to: int, shape: tuple[int, ...], source: int) -> Array:
        """Send and receive at the same time."""
        ...


class SocketPeers:
    """A member of a group in which each is connected to each.

    Only the numbers themselves are sent, in float64: 8 bytes each, without any heading, since
    both ends know what comes.

    Attributes
    ----------
    sent_bytes, received_bytes
        What went through the sockets so far.
    """

    def __init__(self, rank: int, size: int, connections: Mapping[int, socket.socket]) -> None:
        self.rank, self.size = rank, size
        self.connections = connections
        self.sent_bytes = self.received_bytes = 0

    def among(self, size: int) -> SocketPeers:
        """Look at the first members as a group of their own, with nothing counted yet."""
        return SocketPeers(self.rank, size, self.connections)

    def send(self, values: Array, to: int) -> None:
        """Send an array to one of them."""
        told = np.ascontiguousarray(values, dtype=np.float64).tobytes()
        self.connections[to].sendall(told)
        self.sent_bytes += len(told)

    def receive(self, shape: tuple[int, ...], source: int) -> Array:
        """Receive an array of a known shape from one of them."""
        room = bytearray(8 * math.prod(shape))
        view = memoryview(room)
        while view:
            came = self.connections[source].recv_into(view)
            if not came:
                raise ConnectionError(f"process {source} has left")
            self.received_bytes += came
            view = view[came:]
        return np.frombuffer(room, dtype=np.float64).reshape(shape)

    def exchange(self, values: Array, to: int, shape: tuple[int, ...], source: int) -> Array:
        """Send and receive at the same time.

        If all first sent and then received, arrays larger than the kernel's buffers would leave
        everyone waiting for everyone.
        """
        with ThreadPoolExecutor(1) as beside:
            sending = beside.submit(self.send, values, to)
            found = self.receive(shape, source)
            sending.result()
        return found


def meet(rank: int, addresses: Sequence[str]) -> SocketPeers:
    """Connect with all other members of a group; the later one of two calls the earlier.

    Parameters
    ----------
    addresses
        `host:port` of each member, by rank.

    Raises
    ------
    OSError
        If a member does not come in time.
    """
    host, port = _place(addresses[rank])
    connections = {}
    with socket.create_server((host, port), backlog=len(addresses)) as listening:
        listening.settimeout(PATIENCE_S)
        for earlier in range(rank):
            connections[earlier] = _call(*_place(addresses[earlier]))
            connections[earlier].sendall(bytes([rank]))
        for _ in range(rank + 1, len(addresses)):
            connection = listening.accept()[0]
            connections[connection.recv(1)[0]] = connection
    for connection in connections.values():
        connection.settimeout(PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SocketPeers(rank, len(addresses), connections)


def _call(host: str, port: int) -> socket.socket:
    """Connect to a member that may not be listening yet."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, port), timeout=PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.01)


def _place(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)
