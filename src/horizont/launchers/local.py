"""Launcher `local`: processes on this machine, on ports that no other run uses meanwhile."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from horizont.config.topology import Capability, Topology
from horizont.errors import UserError
from horizont.launchers.base import Cluster, Launcher
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup

#: Range of the ports; below it are most of the well-known services.
FIRST_PORT, LAST_PORT = 10_000, 65_535

#: The kernel's range of ports for outgoing connections.
EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")

#: Ports that are tried before the machine counts as full.
MAX_ATTEMPTS = 200


class LocalLauncher(Launcher):
    """Processes on this machine, all with the same CPUs and the same network."""

    capabilities: frozenset[Capability] = frozenset({"shared_clock"})
    settings = frozenset({"addresses", "base_port", "device"})

    @contextlib.contextmanager
    def open(self, topology: Topology, folder: Path) -> Iterator[LocalCluster]:
        """Open a cluster whose hosts are addresses of this machine."""
        del folder
        with contextlib.ExitStack() as stack:
            yield LocalCluster(topology, stack)


class LocalCluster(Cluster):
    """The launcher's own machine, under one or several of its addresses."""

    def __init__(self, topology: Topology, stack: contextlib.ExitStack) -> None:
        names, addresses = topology.all_hosts, topology.addresses
        self._addresses = {
            name: addresses[number % len(addresses)] for number, name in enumerate(names)
        }
        self._base_port = topology.base_port
        self._stack = stack  # releases the ports

    def endpoints(self, hosts: Sequence[str]) -> list[str]:
        """Return a free port for each process."""
        addresses = [self._addresses[host] for host in hosts]
        ports = self._stack.enter_context(reserve_ports(addresses, self._base_port))
        return [f"{address}:{port}" for address, port in zip(addresses, ports, strict=True)]

    def start(self, plan: ProcessPlan, log: Path) -> ProcessGroup:
        """Start a process."""
        return ProcessGroup(plan, log)

    def disconnect(self, host: str) -> None:
        """Raise an error: the processes share one network."""
        raise NotImplementedError(f"{host} has no network of its own")

    reconnect = disconnect


LAUNCHER = LocalLauncher()


@contextlib.contextmanager
def reserve_ports(hosts: Sequence[str], base_port: int) -> Iterator[list[int]]:
    """Reserve a free port on each host against other runs on this machine, for the context.

    The ports stay free for the frameworks to listen on. What is reserved is a name for each port,
    which only one process of the machine can bind; the kernel frees it however its owner ends.

    A host is an address of this machine. With a base port the ports are consecutive, and one that
    is in use is refused; with 0 they are any free ones.
    """
    with contextlib.ExitStack() as stack:
        yield [
            _reserve_given_port(stack, host, base_port + number)
            if base_port
            else _reserve_any_port(stack, host)
            for number, host in enumerate(hosts)
        ]


def candidate_ports() -> range:
    """Return the ports to pick from: none that an outgoing connection could take meanwhile.

    These are the ports below the range of outgoing connections or those above, whichever are
    more; all ports if both are few.
    """
    low, high = map(int, EPHEMERAL_RANGE_FILE.read_text(encoding="ascii").split())
    larger = max(range(FIRST_PORT, low), range(max(high + 1, FIRST_PORT), LAST_PORT + 1), key=len)
    return larger if len(larger) > MAX_ATTEMPTS else range(FIRST_PORT, LAST_PORT + 1)


def _reserve_any_port(stack: contextlib.ExitStack, host: str) -> int:
    ports = candidate_ports()
    # Seeded by the system: runs that share a seed must not try the same ports.
    for port in random.Random().sample(ports, min(MAX_ATTEMPTS, len(ports))):
        try:
            stack.enter_context(_reserved_name(host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return port
    raise UserError("topology.base_port", 0, f"a machine with free ports on {host}")


def _reserve_given_port(stack: contextlib.ExitStack, host: str, port: int) -> int:
    if port > LAST_PORT:
        raise UserError("topology.base_port", port, f"ports up to {LAST_PORT}")
    try:
        stack.enter_context(_reserved_name(host, port))
    except OSError as error:
        raise UserError("topology.base_port", port, f"free ports ({error.strerror})") from None
    return port


@contextlib.contextmanager
def _reserved_name(host: str, port: int) -> Iterator[None]:
    """Reserve the name of a free port, which is tested by listening on it for a moment.

    It is that of an abstract Unix socket, which belongs to a network namespace as a port does.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reservation:
        reservation.bind(f"\0horizont-port-{port}")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            # To the frameworks, too, a port in TIME_WAIT is free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                # A port is also in use when a process listens there on another address.
                listener.listen()
            except OSError as error:
                if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                    allowed = "names or addresses of this machine"
                    raise UserError("topology.addresses", host, allowed) from None
                raise
        yield
