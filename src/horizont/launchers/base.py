"""Where processes run: the hosts of an engine, open for the time of a run.

An engine is a file with one class and a line in :data:`ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from horizont.config.topology import Topology
from horizont.launchers.emulated import emulated_cluster
from horizont.launchers.local import reserve_ports


class Cluster(Protocol):
    """The hosts of a run."""

    def endpoints(self, hosts: list[str]) -> list[str]:
        """Find a place to listen, as `address:port`, for each process by its host.

        It stays the run's own until the hosts are closed.
        """
        ...

    def command_prefix(self, host: str, folder: Path) -> tuple[str, ...]:
        """Tell the words in front of a command that is to run on a host, in `folder`.

        They replace themselves by the command, so the process number stays.
        """
        ...

    def byte_counters(self) -> dict[str, Path]:
        """Tell where the byte counters of each host of its own are read."""
        ...

    def helper_processes(self) -> dict[str, int]:
        """Tell the processes that carry packets between the hosts, by name."""
        ...

    def apply_cpu_quota(self) -> None:
        """Allow each host no more than its share of the processors from now on."""
        ...

    def disconnect(self, host: str) -> None:
        """Pull a host's cable."""
        ...

    def reconnect(self, host: str) -> None:
        """Put it back."""
        ...


class LocalCluster:
    """The machine itself, under one or several of its addresses.

    Parameters
    ----------
    held
        Keeps the ports until the run is over.
    """

    def __init__(self, base_port: int, stack: ExitStack) -> None:
        self.base_port = base_port
        self.stack = stack

    def endpoints(self, hosts: list[str]) -> list[str]:
        """Find a free port for each process."""
        ports = self.stack.enter_context(reserve_ports(hosts, self.base_port))
        return [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]

    def command_prefix(self, host: str, folder: Path) -> tuple[str, ...]:
        """Tell nothing: processes start here."""
        del host, folder
        return ()

    def byte_counters(self) -> dict[str, Path]:
        """Tell nothing: the machine's own counters are read anyway."""
        return {}

    def helper_processes(self) -> dict[str, int]:
        """Tell nothing: the kernel carries them."""
        return {}

    def apply_cpu_quota(self) -> None:
        """Do nothing: the machine is not divided."""

    def disconnect(self, host: str) -> None:
        """Refuse: the machine has no cable of its own for it."""
        raise NotImplementedError(f"{host} cannot be cut off; emulated hosts can")

    reconnect = disconnect


@contextmanager
def local_cluster(topology: Topology, folder: Path) -> Iterator[Cluster]:
    """Use this machine."""
    del folder
    with ExitStack() as held:
        yield LocalCluster(topology.base_port, held)


#: Engine -> how its hosts are made for the time of a run, with a folder for what they need.
LAUNCHERS: dict[str, Callable[[Topology, Path], AbstractContextManager[Cluster]]] = {
    "local": local_cluster,
    "emulated": emulated_cluster,
}


def open_cluster(topology: Topology, folder: Path) -> AbstractContextManager[Cluster]:
    """Make the hosts of a topology for the time of a run."""
    return LAUNCHERS[topology.launcher](topology, folder)
