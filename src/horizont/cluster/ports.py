"""Ports for the processes of a run."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Sequence
from pathlib import Path

from horizont.errors import UserError

#: Where the kernel tells the ports that it gives to outgoing connections.
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, TRIES = 10240, 100


class PortTaken(UserError):
    """A port on which somebody else listens."""


def take_ports(hosts: Sequence[str], base_port: int) -> list[int]:
    """Find a free port on each of `hosts`.

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
    sockets = []
    try:
        for place, host in enumerate(hosts):
            sockets.append(_bind(host, base_port + place) if base_port else _bind_any(host))
        return [taken.getsockname()[1] for taken in sockets]
    finally:
        for taken in sockets:
            taken.close()


def _bind_any(host: str) -> socket.socket:
    """Take a free port that the kernel gives to no outgoing connection.

    From here until a framework listens there, seconds later, nobody holds it: a port of the
    kernel's own range could by then belong to a connection of another process.
    """
    below = int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else 32768
    for port in random.SystemRandom().sample(range(LOWEST, max(below, 2 * LOWEST)), TRIES):
        with contextlib.suppress(PortTaken):
            return _bind(host, port)
    return _bind(host, 0)


def _bind(host: str, port: int) -> socket.socket:
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port whose last connections are still timing out is free to the frameworks, too.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        # A port is also taken when someone listens there on another address.
        taken.listen()
    except socket.gaierror:
        taken.close()
        raise UserError("topology.hosts", host, "names or addresses of this machine") from None
    except OverflowError:
        taken.close()
        raise UserError("topology.base_port", port, "ports up to 65535") from None
    except OSError as error:
        taken.close()
        if port and error.errno != errno.EADDRNOTAVAIL:
            raise PortTaken("topology.base_port", port, f"free ports ({error.strerror})") from None
        raise UserError("topology.hosts", host, "names or addresses of this machine") from None
    return taken
