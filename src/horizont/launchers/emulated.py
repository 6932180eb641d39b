"""A cluster on one machine: each host a network namespace, all on one switch.

The switch is a bridge in a namespace of its own. From it a cable (a pair of virtual interfaces)
leads to each host. Its rate is limited at both ends, each for what leaves there. Cables with
latency go through a process of ours, `horizont.launchers.latency_link`.
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

from horizont.config.topology import Link, Topology
from horizont.errors import UserError
from horizont.launchers.netns import (
    HOST_INTERFACE,
    REQUIRED_TOOLS,
    ClusterError,
    CpuQuota,
    HolderProcess,
    Namespace,
    set_rate_limit,
)

#: The network of the hosts: host-0 has the address 10.77.0.1.
NETWORK_PREFIX = "10.77.0"

#: The first port; each process takes the next one.
FIRST_PORT = 4000

#: New namespaces have whatever the kernel's default congestion control is; this one is everywhere.
CONGESTION_CONTROL = "reno"

_RUN_NUMBERS = count()


class EmulatedCluster:
    """The hosts of a run, on a switch.

    Parameters
    ----------
    folder
        Where their table of names is written for a moment.
    """

    def __init__(self, topology: Topology, folder: Path) -> None:
        self.names = topology.all_hosts
        self.link = topology.link
        token = f"horizont-{os.getpid()}-{next(_RUN_NUMBERS)}"
        self.cpu_quotas = _create_cpu_quotas(self.names, token, topology.cpus_per_host)
        removal = "".join(share.cleanup_command for share in self.cpu_quotas.values())
        self.switch = Namespace(cleanup_command=removal)
        self.hosts = {name: Namespace() for name in self.names}
        self.latency_links: HolderProcess | None = None
        self.hosts_file = folder / "hosts"

    def set_up(self) -> None:
        """Lay the cables and give names and addresses.

        Raises
        ------
        HostsError
            If the system does not let us.
        """
        for namespace in (self.switch, *self.hosts.values()):
            namespace.wait_ready()
        self.hosts_file.write_text(self._hosts_file_text(), encoding="utf-8")
        self._create_links()
        for name, namespace in self.hosts.items():
            self._configure_host(name, namespace)
            set_rate_limit(namespace, HOST_INTERFACE, self.link.effective_uplink_mbit)
            set_rate_limit(self.switch, name, self.link.rate_mbit)
        self.hosts_file.unlink()  # the hosts keep it in their mounts; the record is none of its places

    def _hosts_file_text(self) -> str:
        lines = [f"{self.address(name)} {name}" for name in self.names]
        return "\n".join(["127.0.0.1 localhost", *lines]) + "\n"

    def _create_links(self) -> None:
        self.switch.ip(["link add switch type bridge", "link set switch up"])
        if self.link.latency_ms:
            self._create_latency_links()
        else:
            self.switch.ip(
                f"link add {name} type veth peer name {HOST_INTERFACE} netns {namespace.pid}"
                for name, namespace in self.hosts.items()
            )
        self.switch.ip(f"link set {name} master switch up" for name in self.hosts)

    def _create_latency_links(self) -> None:
        """Lay cables that hold every packet back; on its way it goes through two of them."""
        delay_s = self.link.latency_ms / 2e3
        ends = [f"{name}={namespace.pid}" for name, namespace in self.hosts.items()]
        program = (sys.executable, "-m", "horizont.launchers.latency_link")
        self.latency_links = HolderProcess((*program, str(delay_s), str(self.switch.pid), *ends))
        self.latency_links.wait_ready()

    def _configure_host(self, name: str, namespace: Namespace) -> None:
        """Give a host its address, its name, and a table of all names."""
        namespace.ip(
            [
                f"address add {self.address(name)}/24 dev {HOST_INTERFACE}",
                "link set lo up",
                f"link set {HOST_INTERFACE} up",
            ]
        )
        script = (
            f"hostname {name} && mount --bind '{self.hosts_file}' /etc/hosts && "
            f"echo {CONGESTION_CONTROL} > /proc/sys/net/ipv4/tcp_congestion_control"
        )
        namespace.run("sh", "-c", script)

    def address(self, name: str) -> str:
        """Tell the address of a host."""
        return f"{NETWORK_PREFIX}.{self.names.index(name) + 1}"

    def endpoints(self, hosts: list[str]) -> list[str]:
        """Give each process a port: on hosts of our own all are free."""
        return [f"{self.address(host)}:{FIRST_PORT + place}" for place, host in enumerate(hosts)]

    def command_prefix(self, host: str, folder: Path) -> tuple[str, ...]:
        """Tell the words in front of a command that is to run on a host."""
        share = self.cpu_quotas[host].command_prefix if self.cpu_quotas else ()
        return (*share, *self.hosts[host].command_prefix(folder))

    def byte_counters(self) -> dict[str, Path]:
        """Tell where the byte counters of each host are read, from outside."""
        return {name: Path(f"/proc/{host.pid}/net/dev") for name, host in self.hosts.items()}

    def helper_processes(self) -> dict[str, int]:
        """Tell the process that carries packets over cables with latency."""
        return {"switch": self.latency_links.pid} if self.latency_links else {}

    def apply_cpu_quota(self) -> None:
        """Allow the hosts no more than their share of the processors from now on."""
        for share in self.cpu_quotas.values():
            share.apply()

    def disconnect(self, host: str) -> None:
        """Pull a host's cable out of the switch."""
        self.switch.ip([f"link set {host} down"])

    def reconnect(self, host: str) -> None:
        """Put it back."""
        self.switch.ip([f"link set {host} up"])

    def tear_down(self) -> None:
        """Take everything down; the processes inside have ended."""
        kept: list[HolderProcess] = [*self.hosts.values(), self.switch]
        kept += [self.latency_links] if self.latency_links else []
        for keeper in kept:
            keeper.release()
        for keeper in kept:
            keeper.wait_released()


def _create_cpu_quotas(names: Sequence[str], token: str, cpus: float | None) -> dict[str, CpuQuota]:
    """Make a share for each host, or, if one cannot be made, none at all."""
    shares: dict[str, CpuQuota] = {}
    if cpus is None:
        return shares
    with ExitStack() as undone:
        for name in names:
            shares[name] = CpuQuota(f"{token}-{name}", cpus)
            undone.callback(shares[name].folder.rmdir)
        undone.pop_all()
    return shares


@contextmanager
def emulated_cluster(topology: Topology, folder: Path) -> Iterator[EmulatedCluster]:
    """Make the hosts of a topology for the time of a run.

    Raises
    ------
    UserError
        If this system does not allow it.
    """
    if reason := unavailable_reason(topology):
        raise UserError("topology.engine", topology.launcher, f"local ({reason})")
    with ExitStack() as held:
        try:
            hosts = held.enter_context(_open_cluster(topology, folder))
        except (ClusterError, OSError) as error:
            count = len(topology.all_hosts)
            raise UserError("topology.workers", count, f"fewer hosts ({error})") from None
        yield hosts


@contextmanager
def _open_cluster(topology: Topology, folder: Path) -> Iterator[EmulatedCluster]:
    hosts = EmulatedCluster(topology, folder)
    try:
        hosts.set_up()
        yield hosts
    finally:
        hosts.tear_down()


def unavailable_reason(topology: Topology) -> str:
    """Tell in a few words what a topology needs and this system lacks; nothing if all is there."""
    if not topology.is_emulated:
        return ""
    return _try_unavailable_reason(topology.link, topology.cpus_per_host is not None)


@cache
def _try_unavailable_reason(link: Link, with_cpu_quota: bool) -> str:
    """Try it with a single host, once."""
    if os.geteuid() != 0:
        return "emulated hosts need root"
    absent = [tool for tool in REQUIRED_TOOLS if shutil.which(tool) is None]
    if absent:
        return f"emulated hosts need the commands {', '.join(absent)}"
    tried = Topology(launcher="emulated", link=link, cpus_per_host=1.0 if with_cpu_quota else None)
    try:
        with tempfile.TemporaryDirectory() as folder, _open_cluster(tried, Path(folder)) as hosts:
            hosts.apply_cpu_quota()
            return ""
    except (ClusterError, OSError) as error:
        return f"emulated hosts cannot be made here: {error}"
