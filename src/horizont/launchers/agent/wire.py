"""Authenticated frames over a socket: JSON with an optional body of bytes.

A frame is the lengths of both parts (two 32-bit numbers), a tag, the JSON and the body. The tag is
an HMAC-SHA256 under a key of the connection, over the direction, the number of the frame in that
direction, and its content; so a frame that was forged, replayed, reordered or sent back is refused.
The key of the connection is derived from the secret of the run and a nonce of each end.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import select
import socket
import struct
import threading
import time
from typing import Any, Literal

from horizont.errors import ConnectionRefused

PROTOCOL = b"horizont-agent-1"

#: Environment variable with the secret of a run, for engines that pass it on.
SECRET_VARIABLE = "HORIZONT_AGENT_SECRET"

#: Hexadecimal digits of a secret: 128 bits at least.
MIN_SECRET_DIGITS = 32

#: Largest parts of a frame: more memory is never reserved for one.
MAX_JSON_BYTES, MAX_BODY_BYTES = 1 << 22, 1 << 22

#: Bytes of a file in one frame.
CHUNK_BYTES = 1 << 20

#: Seconds for a handshake, and for the rest of a frame that has begun.
FRAME_TIMEOUT_S = 5.0

_LENGTHS = struct.Struct("!II")
_NONCE_BYTES = _TAG_BYTES = 32

Message = dict[str, Any]
End = Literal["launcher", "agent"]


def new_secret() -> str:
    """Return a random secret for the connections of one launcher."""
    return os.urandom(32).hex()


def is_secret(text: str) -> bool:
    """Whether a text can be a secret: hexadecimal digits, `MIN_SECRET_DIGITS` at least."""
    try:
        return len(bytes.fromhex(text)) * 2 >= MIN_SECRET_DIGITS
    except ValueError:
        return False


class Channel:
    """One end of an authenticated connection.

    Frames may be sent by several threads, and received by one. A frame that is not authentic, too
    large or incomplete raises `ConnectionRefused`; the end of the connection, an `OSError`.
    """

    def __init__(self, connection: socket.socket, secret: str, end: End) -> None:
        self._socket = connection
        self._sending = threading.Lock()
        self._sent = self._received = 0
        self._send_label, self._receive_label = (b"L", b"A") if end == "launcher" else (b"A", b"L")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(FRAME_TIMEOUT_S)
        self._key = self._derive_key(secret, end)

    def _derive_key(self, secret: str, end: End) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        self._socket.sendall(PROTOCOL + nonce)
        greeting = self._read(len(PROTOCOL) + _NONCE_BYTES, time.monotonic() + FRAME_TIMEOUT_S)
        if not greeting.startswith(PROTOCOL):
            raise ConnectionRefused("the other end does not speak the protocol of the agents")
        other = greeting[len(PROTOCOL) :]
        nonces = nonce + other if end == "launcher" else other + nonce
        return hmac.digest(bytes.fromhex(secret), PROTOCOL + nonces, "sha256")

    @property
    def is_sending(self) -> bool:
        """Whether a thread is sending a frame."""
        return self._sending.locked()

    def fileno(self) -> int:
        """Return the file descriptor of the socket, for `selectors`."""
        return self._socket.fileno()

    def send(self, message: Message, body: bytes = b"") -> None:
        """Send a frame; one that the other end does not read within seconds is a `TimeoutError`."""
        content = json.dumps(message, default=str).encode()
        if len(content) > MAX_JSON_BYTES or len(body) > MAX_BODY_BYTES:
            raise ValueError(f"a frame of {len(content)} and {len(body)} bytes is too large")
        lengths = _LENGTHS.pack(len(content), len(body))
        with self._sending:
            tag = self._tag(self._send_label, self._sent, lengths, content, body)
            self._sent += 1
            self._socket.sendall(lengths + tag + content + body)

    def receive(self, timeout_s: float | None = None) -> tuple[Message, bytes]:
        """Wait for a frame; `TimeoutError` if its first byte is late, None does not limit that."""
        if not self._wait_readable(timeout_s):
            raise TimeoutError("nothing was received in time")
        deadline_s = time.monotonic() + FRAME_TIMEOUT_S
        lengths = self._read(_LENGTHS.size, deadline_s)
        content_bytes, body_bytes = _LENGTHS.unpack(lengths)
        if content_bytes > MAX_JSON_BYTES or body_bytes > MAX_BODY_BYTES:
            raise ConnectionRefused(f"a frame of {content_bytes + body_bytes} bytes")
        tag = self._read(_TAG_BYTES, deadline_s)
        content = self._read(content_bytes, deadline_s)
        body = self._read(body_bytes, deadline_s)
        expected = self._tag(self._receive_label, self._received, lengths, content, body)
        if not hmac.compare_digest(tag, expected):
            raise ConnectionRefused("a frame without the secret of this run")
        self._received += 1
        message: Message = json.loads(content)
        return message, body

    def close(self) -> None:
        """Close the connection; a thread that waits in `receive` gets an `OSError`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _tag(self, label: bytes, number: int, *parts: bytes) -> bytes:
        mac = hmac.new(self._key, label + number.to_bytes(8, "big"), "sha256")
        for part in parts:
            mac.update(part)
        return mac.digest()

    def _wait_readable(self, timeout_s: float | None) -> bool:
        """Wait for bytes, or for the end of the connection; return whether there is any.

        Without the timeout of the socket, which is that of a thread that sends meanwhile, too.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else 1e3 * timeout_s))

    def _read(self, count: int, deadline_s: float) -> bytes:
        """Read so many bytes by a deadline: a peer that sends one at a time cannot hold it up."""
        parts = bytearray()
        while len(parts) < count:
            if not self._wait_readable(max(0.0, deadline_s - time.monotonic())):
                raise ConnectionRefused(f"a frame that took longer than {FRAME_TIMEOUT_S:g} s")
            part = self._socket.recv(min(count - len(parts), CHUNK_BYTES))
            if not part:
                raise ConnectionResetError("the other end has closed the connection")
            parts += part
        return bytes(parts)
