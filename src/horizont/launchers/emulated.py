"""Launcher `emulated`: a cluster on one machine, each host a network namespace.

The hosts are connected to a switch, which is a bridge in a namespace of its own, by pairs of
virtual interfaces. Each end limits the rate of what leaves there. Frames on links with latency go
through a helper process, `horizont.launchers.latency_link`.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from horizont.config.topology import Capability, Link, Topology
from horizont.errors import UserError
from horizont.launchers.base import Cluster, Launcher
from horizont.launchers.netns import (
    HOST_INTERFACE,
    REQUIRED_TOOLS,
    ClusterError,
    CpuQuota,
    HolderProcess,
    Namespace,
    set_rate_limit,
)
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup
from horizont.monitoring.client import SamplerClient

#: Network of the hosts: host-0 has the address 10.77.0.1.
NETWORK_PREFIX = "10.77.0"

#: Port of the first process; each process takes the next one.
FIRST_PORT = 4000

#: A new namespace starts with the default of the kernel, which differs from machine to machine.
CONGESTION_CONTROL = "reno"

_RUN_NUMBERS = count()


class EmulatedLauncher(Launcher):
    """Hosts as network namespaces, with links and CPU quotas of their own; needs root."""

    capabilities: frozenset[Capability] = frozenset(
        {"byte_counters", "link_limits", "cpu_quota", "disconnect", "shared_clock"}
    )
    settings = frozenset({"hosts", "placement", "link", "cpus_per_host", "pin_hosts"})

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what a topology needs and this machine lacks; empty if it can be used."""
        return _try_unavailable_reason(topology.link, topology.cpus_per_host is not None)

    @contextmanager
    def open(self, topology: Topology, folder: Path) -> Iterator[EmulatedCluster]:
        """Create the hosts of a topology, removed at the end of the context."""
        with ExitStack() as stack:
            try:
                cluster = stack.enter_context(_open_cluster(topology, folder))
            except (ClusterError, OSError) as error:
                hosts = len(topology.all_hosts)
                raise UserError("topology.workers", hosts, f"fewer hosts ({error})") from None
            yield cluster


LAUNCHER = EmulatedLauncher()


class EmulatedCluster(Cluster):
    """The hosts of a run and their switch."""

    def __init__(self, topology: Topology, folder: Path) -> None:
        self.names = topology.all_hosts
        self.link = topology.link
        self.latency_links: HolderProcess | None = None
        self.hosts_file = folder / "hosts"
        self.hosts: dict[str, Namespace] = {}
        self.cpus_of = _pinned_cpus(topology) if topology.pin_hosts else {}
        token = f"horizont-{os.getpid()}-{next(_RUN_NUMBERS)}"
        self.cpu_quotas = _create_cpu_quotas(self.names, token, topology.cpus_per_host)
        cleanup_command = "".join(quota.cleanup_command for quota in self.cpu_quotas.values())
        with ExitStack() as undo:
            for quota in self.cpu_quotas.values():
                undo.callback(quota.folder.rmdir)
            self.switch = Namespace(cleanup_command)  # from now on, its end removes the quotas
            undo.pop_all()
            undo.callback(self.tear_down)
            for name in self.names:
                self.hosts[name] = Namespace()
            undo.pop_all()

    def set_up(self) -> None:
        """Create the links and set names and addresses, or raise a `ClusterError`."""
        for namespace in (self.switch, *self.hosts.values()):
            namespace.wait_ready()
        entries = ["127.0.0.1 localhost", *(f"{self.address(name)} {name}" for name in self.names)]
        self.hosts_file.write_text("\n".join(entries) + "\n", encoding="utf-8")
        self._create_links()
        for name, namespace in self.hosts.items():
            self._configure_host(name, namespace)
        self.limit_links(self.link)
        # The mounts of the hosts keep the file, which must not become part of the record.
        self.hosts_file.unlink()

    def _create_links(self) -> None:
        self.switch.ip(["link add switch type bridge", "link set switch up"])
        pids = {name: namespace.pid for name, namespace in self.hosts.items()}
        if self.link.latency_ms:
            delay_s = self.link.latency_ms / 2e3  # from host to host, a packet takes two links
            hosts = [f"{name}={pid}" for name, pid in pids.items()]
            program = (sys.executable, "-m", "horizont.launchers.latency_link")
            command = (*program, str(delay_s), str(self.switch.pid), *hosts)
            self.latency_links = HolderProcess(command)
            self.latency_links.wait_ready()
        else:
            self.switch.ip(
                f"link add {name} type veth peer name {HOST_INTERFACE} netns {pid}"
                for name, pid in pids.items()
            )
        self.switch.ip(f"link set {name} master switch up" for name in self.hosts)

    def _configure_host(self, name: str, namespace: Namespace) -> None:
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

    def limit_links(self, link: Link) -> None:
        """Limit the links of all hosts to the rates of a link."""
        for name, namespace in self.hosts.items():
            set_rate_limit(namespace, HOST_INTERFACE, link.effective_uplink_mbit)
            set_rate_limit(self.switch, name, link.rate_mbit)

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"{NETWORK_PREFIX}.{self.names.index(name) + 1}"

    def endpoints(self, hosts: Sequence[str]) -> list[str]:
        """Return an endpoint for each process: in a namespace of our own all ports are free."""
        return [f"{self.address(host)}:{FIRST_PORT + number}" for number, host in enumerate(hosts)]

    def command_prefix(self, host: str, folder: Path) -> tuple[str, ...]:
        """Return the argv prefix that runs a command on a host, in `folder`, by ``exec``."""
        return (*self.cpu_prefix(host), *self.hosts[host].command_prefix(folder))

    def cpu_prefix(self, host: str) -> tuple[str, ...]:
        """Return the argv prefix that runs a command with the CPU quota and the CPUs of a host."""
        quota = self.cpu_quotas[host].command_prefix if self.cpu_quotas else ()
        cpus = self.cpus_of.get(host)
        pinned = ("taskset", "--cpu-list", ",".join(map(str, cpus))) if cpus else ()
        return (*quota, *pinned)

    def start(self, plan: ProcessPlan, log: Path) -> ProcessGroup:
        """Start a process on its host."""
        return ProcessGroup(plan, log, self.command_prefix(plan.host, plan.folder))

    def attach_sampler(self, sampler: SamplerClient) -> None:
        """Sample the hosts' interfaces and the process that forwards frames."""
        for name, host in self.hosts.items():
            sampler.add_host(name, Path(f"/proc/{host.pid}/net/dev"))
        if self.latency_links is not None:
            sampler.add_root(self.latency_links.pid, "switch")

    def apply_cpu_quota(self) -> None:
        """Apply the CPU quotas of all hosts; again it changes nothing."""
        for quota in self.cpu_quotas.values():
            quota.apply()

    def disconnect(self, host: str) -> None:
        """Set the switch's port of a host down."""
        self.switch.ip([f"link set {host} down"])

    def reconnect(self, host: str) -> None:
        """Set the switch's port of a host up again."""
        self.switch.ip([f"link set {host} up"])

    def tear_down(self) -> None:
        """Remove all hosts; their processes have ended."""
        holders: list[HolderProcess] = [*self.hosts.values(), self.switch]
        holders += [self.latency_links] if self.latency_links else []
        for holder in holders:
            holder.release()
        for holder in holders:
            holder.wait_released()


def _pinned_cpus(topology: Topology) -> dict[str, list[int]]:
    """Return the CPUs of each host: as many as its quota needs, in turn."""
    available = sorted(os.sched_getaffinity(0))
    count = min(math.ceil(topology.cpus_per_host or 1.0), len(available))
    return {
        host: [available[(number * count + each) % len(available)] for each in range(count)]
        for number, host in enumerate(topology.all_hosts)
    }


def _create_cpu_quotas(names: Sequence[str], token: str, cpus: float | None) -> dict[str, CpuQuota]:
    """Create a quota for each host, or, if one cannot be created, none at all."""
    quotas: dict[str, CpuQuota] = {}
    if cpus is None:
        return quotas
    with ExitStack() as undo:
        for name in names:
            quotas[name] = CpuQuota(f"{token}-{name}", cpus)
            undo.callback(quotas[name].folder.rmdir)
        undo.pop_all()
    return quotas


@contextmanager
def _open_cluster(topology: Topology, folder: Path) -> Iterator[EmulatedCluster]:
    cluster = EmulatedCluster(topology, folder)
    try:
        cluster.set_up()
        yield cluster
    finally:
        cluster.tear_down()


@cache
def _try_unavailable_reason(link: Link, with_cpu_quota: bool) -> str:
    """Test with a single host, once per process, whether this machine can emulate hosts."""
    if os.geteuid() != 0:
        return "emulated hosts need root"
    missing = [tool for tool in REQUIRED_TOOLS if shutil.which(tool) is None]
    if missing:
        return f"emulated hosts need the commands {', '.join(missing)}"
    topology = Topology(
        launcher="emulated", link=link, cpus_per_host=1.0 if with_cpu_quota else None
    )
    try:
        with tempfile.TemporaryDirectory() as name, _open_cluster(topology, Path(name)) as cluster:
            cluster.apply_cpu_quota()
    except (ClusterError, OSError) as error:
        return f"emulated hosts cannot be created here: {error}"
    return ""
