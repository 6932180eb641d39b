"""Ports for the processes of a run: free ones, and no other run's until it is over."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from horizont.errors import UserError

#: From the first of these on there are few well-known services.
FIRST_PORT, LAST_PORT = 10_000, 65_535

#: Where the kernel tells which ports it gives to outgoing connections.
EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")

#: How many ports are tried before a machine counts as full.
MAX_ATTEMPTS = 200


@contextlib.contextmanager
def reserve_ports(hosts: Sequence[str], base_port: int) -> Iterator[list[int]]:
    """Find a free port on each of `hosts`, and keep it from other runs during the block.

    The ports themselves stay free to be listened on. What is held is a name for each, which only
    one process of the machine can bear; the kernel takes it back however its holder ends.

    Parameters
    ----------
    hosts
        An address for each port; an address may stand there several times.
    base_port
        The first of consecutive ports to take; 0 takes any that are free.

    Raises
    ------
    UserError
        If an asked port is taken, or a host is not an address of this machine.
    """
    with contextlib.ExitStack() as held:
        yield [
            _reserve_given_port(held, host, base_port + place)
            if base_port
            else _reserve_any_port(held, host)
            for place, host in enumerate(hosts)
        ]


def candidate_ports() -> range:
    """Tell the ports to draw from: none that an outgoing connection could take meanwhile.

    Returns
    -------
    range
        The ports below those of outgoing connections or above them, whichever are more; all of
        them if these are few.
    """
    low, high = map(int, EPHEMERAL_RANGE_FILE.read_text(encoding="ascii").split())
    larger = max(range(FIRST_PORT, low), range(max(high + 1, FIRST_PORT), LAST_PORT + 1), key=len)
    return larger if len(larger) > MAX_ATTEMPTS else range(FIRST_PORT, LAST_PORT + 1)


def _reserve_any_port(stack: contextlib.ExitStack, host: str) -> int:
    """Draw until a port is free."""
    for port in random.Random().sample(
        candidate_ports(), MAX_ATTEMPTS
    ):  # not by a seed that others share
        try:
            stack.enter_context(_claimed_port(host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return port
    raise UserError("topology.base_port", 0, f"a machine with free ports on {host}")


def _reserve_given_port(stack: contextlib.ExitStack, host: str, port: int) -> int:
    """Take just this port."""
    if port > LAST_PORT:
        raise UserError("topology.base_port", port, f"ports up to {LAST_PORT}")
    try:
        stack.enter_context(_claimed_port(host, port))
    except OSError as error:
        raise UserError("topology.base_port", port, f"free ports ({error.strerror})") from None
    return port


@contextlib.contextmanager
def _claimed_port(host: str, port: int) -> Iterator[None]:
    """Bear the name that stands for a free port.

    It is that of a socket without a file: like the port, it is one of its network namespace.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
        claim.bind(f"\0horizont-port-{port}")
        _check_free(host, port)
        yield


def _check_free(host: str, port: int) -> None:
    """Listen on a port for a moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        # A port whose last connections are still timing out is free to the frameworks, too.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host, port))
            # A port is also taken when someone listens there on another address.
            taken.listen()
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                allowed = "names or addresses of this machine"
                raise UserError("topology.addresses", host, allowed) from None
            raise
