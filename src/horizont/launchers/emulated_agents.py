"""Launcher `emulated_agents`: the hosts of `emulated`, each with an agent, as on a cluster.

The launcher is on the switch: agents reach it over the links of their hosts, and a disconnected
host is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from pydantic import model_validator

from horizont.config.base import parse_config
from horizont.config.topology import Capability, Link, Topology
from horizont.errors import UserError
from horizont.launchers import emulated
from horizont.launchers.agent.cluster import AgentCluster
from horizont.launchers.agent.launcher import AgentLauncher, AgentOptions, agent_program
from horizont.launchers.agent.remote_process import RemoteProcess
from horizont.launchers.agent.session import Command, Session, Start
from horizont.launchers.emulated import NETWORK_PREFIX, EmulatedCluster
from horizont.launchers.latency_link import enter_network
from horizont.launchers.plan import ProcessPlan

#: Address of the launcher; those of the hosts are lower.
LAUNCHER_ADDRESS = f"{NETWORK_PREFIX}.254"


class EmulatedAgentOptions(AgentOptions):
    """Options of the launcher, whose address is given."""

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if self.address:
            raise UserError("address", self.address, "no address: the launcher is on the switch")
        return self


class EmulatedAgentLauncher(AgentLauncher):
    """Emulated hosts that share neither files nor clocks with the launcher."""

    capabilities: frozenset[Capability] = frozenset(
        {"byte_counters", "link_limits", "cpu_quota", "disconnect", "aligned_clocks"}
    )
    settings = emulated.LAUNCHER.settings
    Options = EmulatedAgentOptions

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what a topology needs and this machine lacks; empty if it can be used."""
        return emulated.LAUNCHER.unavailable_reason(topology)

    @contextmanager
    def open(self, topology: Topology, folder: Path) -> Iterator[EmulatedAgentCluster]:
        """Create the hosts and start their agents; both are removed at the end of the context."""
        options = parse_config(self.Options, topology.options, "topology.options")
        unlimited = topology.model_copy(update={"link": Link(latency_ms=topology.link.latency_ms)})
        with emulated.LAUNCHER.open(unlimited, folder) as hosts:
            hosts.switch.ip([f"address add {LAUNCHER_ADDRESS}/24 dev switch"])
            with _network_of(hosts.switch.pid):
                session = Session(self._start_on(hosts, options))
            cluster = EmulatedAgentCluster(topology, session, folder, hosts)
            try:
                yield cluster
            finally:
                cluster.close()
                session.close()

    def start_commands(self, topology: Topology) -> dict[str, str]:
        """Return no commands: the hosts exist during a run only."""
        del topology
        return {}

    def _start_on(self, hosts: EmulatedCluster, options: AgentOptions) -> Start:
        commands = tuple(
            Command((*host.command_prefix(Path("/")), *agent_program()), number)
            for number, host in enumerate(hosts.hosts.values())
        )
        start = self._start("topology.launcher", commands, (), len(commands), options)
        return replace(start, address=LAUNCHER_ADDRESS)


LAUNCHER = EmulatedAgentLauncher()


class EmulatedAgentCluster(AgentCluster):
    """Hosts with agents, whose network and CPU time are the launcher's."""

    def __init__(
        self, topology: Topology, session: Session, record: Path, hosts: EmulatedCluster
    ) -> None:
        super().__init__(topology, session, record)
        self._hosts = hosts
        self._link = topology.link
        self._is_limited = False

    def start(self, plan: ProcessPlan, log: Path) -> RemoteProcess:
        """Start a process with the CPU quota of its host, which the agent does not use."""
        argv = (*self._hosts.cpu_prefix(plan.host), *plan.argv)
        return super().start(replace(plan, argv=argv), log)

    def apply_cpu_quota(self) -> None:
        """Apply the CPU quotas and the rates of the links; again it changes nothing.

        Files are sent to the hosts before.
        """
        if self._is_limited:
            return
        self._is_limited = True
        self._hosts.limit_links(self._link)
        self._hosts.apply_cpu_quota()

    def disconnect(self, host: str) -> None:
        """Set the switch's port of a host down."""
        self._hosts.disconnect(host)

    def reconnect(self, host: str) -> None:
        """Set the switch's port of a host up again."""
        self._hosts.reconnect(host)


@contextmanager
def _network_of(pid: int) -> Iterator[None]:
    """Open sockets of the context, and of what is started in it, in the network of a process."""
    with open("/proc/thread-self/ns/net", "rb") as own:
        enter_network(f"/proc/{pid}/ns/net")
        try:
            yield
        finally:
            enter_network(f"/proc/self/fd/{own.fileno()}")
