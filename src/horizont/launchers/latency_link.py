"""Links with latency: a process that delays every Ethernet frame between a host and the switch.

Many kernels lack `netem`. Instead each end of a link is a TAP interface, and this program forwards
the frames. With the kernel's segmentation offload a frame holds up to 64 KiB, so that there are
few of them. The program exits at the end of its standard input.

Started by `horizont.launchers.emulated` as ``python -m horizont.launchers.latency_link DELAY_S
SWITCH_PID NAME=HOST_PID ...``; prints ``ready`` when all links exist.
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

#: The longest frame, with the header that describes its segmentation.
FRAME_BYTES = (1 << 16) + 256


@dataclass
class LinkEnd:
    """One end of a link, and the frames that are due to leave it, each with its time."""

    fd: int
    due: deque[tuple[float, bytes]] = field(default_factory=deque)

    def release_due(self, now_s: float) -> None:
        """Send the frames that are due; they are lost if the interface is down."""
        while self.due and self.due[0][0] <= now_s:
            _, frame = self.due.popleft()
            try:
                os.write(self.fd, frame)
            except OSError:
                continue

    def receive(self, other: LinkEnd, delay_s: float) -> None:
        """Read all frames that have arrived here; they leave at the other end after the delay."""
        while True:
            try:
                frame = os.read(self.fd, FRAME_BYTES)
            except OSError:  # no more frames, or the interface is down
                return
            other.due.append((time.monotonic() + delay_s, frame))


def main(arguments: Sequence[str]) -> None:
    """Create the links and forward frames until the standard input ends."""
    delay_s, switch, *hosts = arguments
    far_ends: dict[int, LinkEnd] = {}
    for name, host in (argument.split("=") for argument in hosts):
        near, far = LinkEnd(_create_tap(host, HOST_INTERFACE)), LinkEnd(_create_tap(switch, name))
        far_ends[near.fd], far_ends[far.fd] = far, near
    print("ready", flush=True)
    forward_frames(far_ends, float(delay_s))


def forward_frames(far_ends: dict[int, LinkEnd], delay_s: float) -> None:
    """Send frames from end to end with a delay, until the standard input ends.

    `far_ends` has the other end of each link, by the file descriptor of the near end.
    """
    ends = {end.fd: end for end in far_ends.values()}
    stdin = sys.stdin.fileno()
    while True:
        now_s = time.monotonic()
        waits_s = [max(end.due[0][0] - now_s, 0.0) for end in ends.values() if end.due]
        ready, _, _ = select.select([stdin, *ends], [], [], min(waits_s, default=None))
        if stdin in ready:
            return
        for fd in ready:
            ends[fd].receive(far_ends[fd], delay_s)
        now_s = time.monotonic()
        for end in ends.values():
            end.release_due(now_s)


def _create_tap(pid: str, name: str) -> int:
    """Create a TAP interface in the network namespace of a process."""
    enter_network(f"/proc/{pid}/ns/net")
    fd = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    flags = _TAP | _NO_HEADER | _OFFLOAD_HEADER
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(fd, _TUNSETOFFLOAD, _CHECKSUM | _SEGMENT_4 | _SEGMENT_6)
    return fd


def enter_network(path: str) -> None:
    """Move this thread, and what it starts, to the network namespace of a file."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


if __name__ == "__main__":
    main(sys.argv[1:])
