"""The bytes that the kernel says a process has sent and received over TCP: a second witness."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from pathlib import Path
from typing import NamedTuple

#: Where they stand in Linux's `struct tcp_info` (include/uapi/linux/tcp.h, from 4.19 on).
_RECEIVED, _NOT_SENT, _SENT, _SENT_AGAIN = 128, 144, 200, 208
_LENGTH = 216

#: How long bytes that were handed over may take to leave.
_PATIENCE_S = 10.0


class Counted(NamedTuple):
    """Bytes inside TCP connections, without any headers of the network."""

    sent_bytes: int
    received_bytes: int


def counted_by_kernel(beside: int | None = None) -> Counted | None:
    """Sum up the TCP connections of this process, once all that was handed over has left it.

    Parameters
    ----------
    beside
        A port whose connections serve another purpose and are left out.

    Returns
    -------
    Counted or None
        None where the kernel does not tell.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while (found := _all_connections(beside)) is not None:
        sent, received, not_sent = (sum(column) for column in zip((0, 0, 0), *found, strict=True))
        if not not_sent or time.monotonic() > end_s:
            return Counted(sent, received)
        time.sleep(0.001)
    return None


def difference(before: Counted | None, after: Counted | None) -> Counted | None:
    """Tell what was counted in between; None if either is not known."""
    if before is None or after is None:
        return None
    return Counted(
        after.sent_bytes - before.sent_bytes, after.received_bytes - before.received_bytes
    )


def _all_connections(beside: int | None) -> list[tuple[int, int, int]] | None:
    """List bytes sent, received and waiting to be sent; None if one cannot be told."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder's own descriptor is gone by now
            if str(entry.readlink()).startswith("socket:"):
                found.append(_connection(int(entry.name), beside))
    told = [each for each in found if each != ()]
    return None if None in told else [each for each in told if each]


def _connection(descriptor: int, beside: int | None) -> tuple[int, int, int] | tuple[()] | None:
    """Read one socket: nothing if it is none to count, None if the kernel does not tell."""
    with socket.socket(fileno=os.dup(descriptor)) as own:
        if own.family not in (socket.AF_INET, socket.AF_INET6) or own.type != socket.SOCK_STREAM:
            return ()
        if beside in _ports(own):
            return ()
        told = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(told) < _LENGTH:
        return None
    long = (struct.unpack_from("Q", told, place)[0] for place in (_SENT, _SENT_AGAIN, _RECEIVED))
    sent, again, received = long
    return sent - again, received, struct.unpack_from("I", told, _NOT_SENT)[0]


def _ports(own: socket.socket) -> tuple[int, ...]:
    """List the ports of both ends; only its own of one that is not connected."""
    try:
        return own.getsockname()[1], own.getpeername()[1]
    except OSError:
        return (own.getsockname()[1],)
