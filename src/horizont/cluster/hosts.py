"""Where processes run: the hosts of an engine, open for the time of a run.

An engine is a file with one class and a line in :data:`ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from horizont.cluster.emulated import emulated_hosts
from horizont.cluster.ports import holding_ports
from horizont.spec import Topology


class Hosts(Protocol):
    """The hosts of a run."""

    def endpoints(self, hosts: list[str]) -> list[str]:
        """Find a place to listen, as `address:port`, for each process by its host.

        It stays the run's own until the hosts are closed.
        """
        ...

    def enter(self, host: str, folder: Path) -> tuple[str, ...]:
        """Tell the words in front of a command that is to run on a host, in `folder`.

        They replace themselves by the command, so the process number stays.
        """
        ...

    def counters(self) -> dict[str, Path]:
        """Tell where the byte counters of each host of its own are read."""
        ...

    def carriers(self) -> dict[str, int]:
        """Tell the processes that carry packets between the hosts, by name."""
        ...

    def hold_to_shares(self) -> None:
        """Allow each host no more than its share of the processors from now on."""
        ...

    def cut_off(self, host: str) -> None:
        """Pull a host's cable."""
        ...

    def join(self, host: str) -> None:
        """Put it back."""
        ...


class LocalHosts:
    """The machine itself, under one or several of its addresses.

    Parameters
    ----------
    held
        Keeps the ports until the run is over.
    """

    def __init__(self, base_port: int, held: ExitStack) -> None:
        self.base_port = base_port
        self.held = held

    def endpoints(self, hosts: list[str]) -> list[str]:
        """Find a free port for each process."""
        ports = self.held.enter_context(holding_ports(hosts, self.base_port))
        return [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]

    def enter(self, host: str, folder: Path) -> tuple[str, ...]:
        """Tell nothing: processes start here."""
        del host, folder
        return ()

    def counters(self) -> dict[str, Path]:
        """Tell nothing: the machine's own counters are read anyway."""
        return {}

    def carriers(self) -> dict[str, int]:
        """Tell nothing: the kernel carries them."""
        return {}

    def hold_to_shares(self) -> None:
        """Do nothing: the machine is not divided."""

    def cut_off(self, host: str) -> None:
        """Refuse: the machine has no cable of its own for it."""
        raise NotImplementedError(f"{host} cannot be cut off; emulated hosts can")

    join = cut_off


@contextmanager
def local_hosts(topology: Topology, folder: Path) -> Iterator[Hosts]:
    """Use this machine."""
    del folder
    with ExitStack() as held:
        yield LocalHosts(topology.base_port, held)


#: Engine -> how its hosts are made for the time of a run, with a folder for what they need.
ENGINES: dict[str, Callable[[Topology, Path], AbstractContextManager[Hosts]]] = {
    "local": local_hosts,
    "emulated": emulated_hosts,
}


def open_hosts(topology: Topology, folder: Path) -> AbstractContextManager[Hosts]:
    """Make the hosts of a topology for the time of a run."""
    return ENGINES[topology.engine](topology, folder)
