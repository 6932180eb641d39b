"""Cables with latency: a process between the two ends of each, which holds every frame back.

The kernel's own means (`netem`) is missing from many kernels. So each end of such a cable is a TAP
interface, and the frames go through this program. With the kernel's segmentation offload a frame
holds up to 64 KiB, so that it has little to do. It leaves when its standard input ends.

Started by `horizont.launchers.emulated` as ``python -m horizont.cluster.cables DELAY_S SWITCH_PID
NAME=HOST_PID ...``; says ``kept`` when all cables are laid.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from horizont.launchers.netns import HOST_INTERFACE

TUN = "/dev/net/tun"
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_TAP, _NO_HEADER, _OFFLOAD_HEADER = 0x0002, 0x1000, 0x4000
_CHECKSUM, _SEGMENT_4, _SEGMENT_6 = 0x01, 0x02, 0x04
_NEW_NETWORK = 0x40000000

#: The longest frame, with the header in front that says how it is to be cut.
FRAME_BYTES = (1 << 16) + 256


@dataclass
class LinkEnd:
    """One end of a cable, and the frames that will come out of it, each with its time."""

    fd: int
    due: deque[tuple[float, bytes]] = field(default_factory=deque)

    def release_due(self, now_s: float) -> None:
        """Let out what is due; a frame that nobody takes (the other side is down) is lost."""
        while self.due and self.due[0][0] <= now_s:
            _, frame = self.due.popleft()
            try:
                os.write(self.fd, frame)
            except OSError:
                continue

    def receive(self, other: LinkEnd, delay_s: float) -> None:
        """Hand what has come in at this end to the other one."""
        while True:
            try:
                frame = os.read(self.fd, FRAME_BYTES)
            except OSError:  # nothing more, or the interface is down
                return
            other.due.append((time.monotonic() + delay_s, frame))


def main(arguments: Sequence[str]) -> None:
    """Lay the cables and keep them until the standard input ends."""
    delay_s, switch, named = (
        float(arguments[0]),
        arguments[1],
        [word.split("=") for word in arguments[2:]],
    )
    other: dict[int, LinkEnd] = {}
    for name, host in named:
        ends = LinkEnd(_create_tap(host, HOST_INTERFACE)), LinkEnd(_create_tap(switch, name))
        other[ends[0].fd], other[ends[1].fd] = ends[1], ends[0]
    print("ready", flush=True)
    forward_frames(other, delay_s)


def forward_frames(far_ends: dict[int, LinkEnd], delay_s: float) -> None:
    """Carry frames between the ends until the standard input ends.

    Parameters
    ----------
    other
        The far end of each end, by the descriptor of the near one.
    """
    ends = {end.fd: end for end in far_ends.values()}
    stdin = sys.stdin.fileno()
    while True:
        now_s = time.monotonic()
        waits = [end.due[0][0] - now_s for end in ends.values() if end.due]
        ready, _, _ = select.select([stdin, *ends], [], [], max(min(waits), 0.0) if waits else None)
        if stdin in ready:
            return
        for fd in ready:
            ends[fd].receive(far_ends[fd], delay_s)
        now_s = time.monotonic()
        for end in ends.values():
            end.release_due(now_s)


def _create_tap(pid: str, name: str) -> int:
    """Make a TAP interface in the network namespace of a process."""
    _enter_network_namespace(pid)
    fd = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    flags = _TAP | _NO_HEADER | _OFFLOAD_HEADER
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(fd, _TUNSETOFFLOAD, _CHECKSUM | _SEGMENT_4 | _SEGMENT_6)
    return fd


def _enter_network_namespace(pid: str) -> None:
    """Go into the network namespace of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/net", "rb") as space:
        if libc.setns(space.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"network of {pid}")


if __name__ == "__main__":
    main(sys.argv[1:])
