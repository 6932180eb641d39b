"""A cluster on one machine: each host a network namespace, all on one switch.

The switch is a bridge in a namespace of its own. From it a cable (a pair of virtual interfaces)
leads to each host. Its rate is limited at both ends, each for what leaves there. Cables with
latency go through a process of ours, `horizont.cluster.cables`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from horizont.cluster.links import AT_HOST, limit
from horizont.cluster.namespaces import TOOLS, HostsError, Keeper, Namespace
from horizont.cluster.shares import Share
from horizont.errors import UserError
from horizont.spec import Link, Topology

#: The network of the hosts: host-0 has the address 10.77.0.1.
NETWORK = "10.77.0"

#: The first port; each process takes the next one.
FIRST_PORT = 4000

#: New namespaces have whatever the kernel's default congestion control is; this one is everywhere.
CONGESTION_CONTROL = "reno"

_RUNS = count()


class EmulatedHosts:
    """The hosts of a run, on a switch.

    Parameters
    ----------
    folder
        Where their table of names is written for a moment.
    """

    def __init__(self, topology: Topology, folder: Path) -> None:
        self.names = topology.all_hosts
        self.link = topology.link
        token = f"horizont-{os.getpid()}-{next(_RUNS)}"
        self.shares = _make_shares(self.names, token, topology.host_cpus)
        removal = "".join(share.removal for share in self.shares.values())
        self.switch = Namespace(afterwards=removal)
        self.hosts = {name: Namespace() for name in self.names}
        self.cables: Keeper | None = None
        self.table = folder / "hosts"

    def make(self) -> None:
        """Lay the cables and give names and addresses.

        Raises
        ------
        HostsError
            If the system does not let us.
        """
        for namespace in (self.switch, *self.hosts.values()):
            namespace.wait_kept()
        self.table.write_text(self._names(), encoding="utf-8")
        self._lay_cables()
        for name, namespace in self.hosts.items():
            self._settle(name, namespace)
            limit(namespace, AT_HOST, self.link.sent_mbit)
            limit(self.switch, name, self.link.rate_mbit)
        self.table.unlink()  # the hosts keep it in their mounts; the record is none of its places

    def _names(self) -> str:
        lines = [f"{self.address(name)} {name}" for name in self.names]
        return "\n".join(["127.0.0.1 localhost", *lines]) + "\n"

    def _lay_cables(self) -> None:
        self.switch.ip(["link add switch type bridge", "link set switch up"])
        if self.link.latency_ms:
            self._lay_slow_cables()
        else:
            self.switch.ip(
                f"link add {name} type veth peer name {AT_HOST} netns {namespace.pid}"
                for name, namespace in self.hosts.items()
            )
        self.switch.ip(f"link set {name} master switch up" for name in self.hosts)

    def _lay_slow_cables(self) -> None:
        """Lay cables that hold every packet back; on its way it goes through two of them."""
        delay_s = self.link.latency_ms / 2e3
        ends = [f"{name}={namespace.pid}" for name, namespace in self.hosts.items()]
        program = (sys.executable, "-m", "horizont.cluster.cables")
        self.cables = Keeper((*program, str(delay_s), str(self.switch.pid), *ends))
        self.cables.wait_kept()

    def _settle(self, name: str, namespace: Namespace) -> None:
        """Give a host its address, its name, and a table of all names."""
        namespace.ip(
            [
                f"address add {self.address(name)}/24 dev {AT_HOST}",
                "link set lo up",
                f"link set {AT_HOST} up",
            ]
        )
        script = (
            f"hostname {name} && mount --bind '{self.table}' /etc/hosts && "
            f"echo {CONGESTION_CONTROL} > /proc/sys/net/ipv4/tcp_congestion_control"
        )
        namespace.inside("sh", "-c", script)

    def address(self, name: str) -> str:
        """Tell the address of a host."""
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def endpoints(self, hosts: list[str]) -> list[str]:
        """Give each process a port: on hosts of our own all are free."""
        return [f"{self.address(host)}:{FIRST_PORT + place}" for place, host in enumerate(hosts)]

    def enter(self, host: str, folder: Path) -> tuple[str, ...]:
        """Tell the words in front of a command that is to run on a host."""
        share = self.shares[host].entrance if self.shares else ()
        return (*share, *self.hosts[host].entrance(folder))

    def counters(self) -> dict[str, Path]:
        """Tell where the byte counters of each host are read, from outside."""
        return {name: Path(f"/proc/{host.pid}/net/dev") for name, host in self.hosts.items()}

    def carriers(self) -> dict[str, int]:
        """Tell the process that carries packets over cables with latency."""
        return {"switch": self.cables.pid} if self.cables else {}

    def hold_to_shares(self) -> None:
        """Allow the hosts no more than their share of the processors from now on."""
        for share in self.shares.values():
            share.hold()

    def cut_off(self, host: str) -> None:
        """Pull a host's cable out of the switch."""
        self.switch.ip([f"link set {host} down"])

    def join(self, host: str) -> None:
        """Put it back."""
        self.switch.ip([f"link set {host} up"])

    def release(self) -> None:
        """Take everything down; the processes inside have ended."""
        kept: list[Keeper] = [*self.hosts.values(), self.switch]
        kept += [self.cables] if self.cables else []
        for keeper in kept:
            keeper.release()
        for keeper in kept:
            keeper.wait_released()


def _make_shares(names: Sequence[str], token: str, cpus: float | None) -> dict[str, Share]:
    """Make a share for each host, or, if one cannot be made, none at all."""
    shares: dict[str, Share] = {}
    if cpus is None:
        return shares
    with ExitStack() as undone:
        for name in names:
            shares[name] = Share(f"{token}-{name}", cpus)
            undone.callback(shares[name].folder.rmdir)
        undone.pop_all()
    return shares


@contextmanager
def emulated_hosts(topology: Topology, folder: Path) -> Iterator[EmulatedHosts]:
    """Make the hosts of a topology for the time of a run.

    Raises
    ------
    UserError
        If this system does not allow it.
    """
    if reason := lacking(topology):
        raise UserError("topology.engine", topology.engine, f"local ({reason})")
    with ExitStack() as held:
        try:
            hosts = held.enter_context(_open(topology, folder))
        except (HostsError, OSError) as error:
            count = len(topology.all_hosts)
            raise UserError("topology.workers", count, f"fewer hosts ({error})") from None
        yield hosts


@contextmanager
def _open(topology: Topology, folder: Path) -> Iterator[EmulatedHosts]:
    hosts = EmulatedHosts(topology, folder)
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.release()


def lacking(topology: Topology) -> str:
    """Tell in a few words what a topology needs and this system lacks; nothing if all is there."""
    if not topology.is_emulated:
        return ""
    return _lacking(topology.link, topology.host_cpus is not None)


@cache
def _lacking(link: Link, with_shares: bool) -> str:
    """Try it with a single host, once."""
    if os.geteuid() != 0:
        return "emulated hosts need root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"emulated hosts need the commands {', '.join(absent)}"
    tried = Topology(engine="emulated", link=link, host_cpus=1.0 if with_shares else None)
    try:
        with tempfile.TemporaryDirectory() as folder, _open(tried, Path(folder)) as hosts:
            hosts.hold_to_shares()
            return ""
    except (HostsError, OSError) as error:
        return f"emulated hosts cannot be made here: {error}"
