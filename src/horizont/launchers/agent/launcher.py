"""What the launchers with agents have in common: their options, capabilities and clusters."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from horizont.config.base import ConfigModel, parse_config
from horizont.config.topology import Capability, Topology
from horizont.errors import UserError
from horizont.launchers.agent.cluster import AgentCluster
from horizont.launchers.agent.session import Command, Start, open_session
from horizont.launchers.base import Launcher


class AgentOptions(ConfigModel):
    """Options of a launcher with agents.

    Attributes
    ----------
    address
        The address of this machine at which the hosts reach it; empty for that of the route to
        them.
    scratch
        The folder on each host for temporary files; empty for that of this machine.
    start_timeout_s
        Limit of the time in which all agents must have called back.
    lease_s
        Seconds without the launcher after which an agent ends, and without an agent after which
        its host counts as lost.
    """

    address: str = ""
    scratch: str = ""
    start_timeout_s: float = Field(default=120.0, gt=0, le=3600)
    lease_s: float = Field(default=3.0, ge=1, le=600)

    @model_validator(mode="after")
    def _check_scratch(self) -> Self:
        if self.scratch and not Path(self.scratch).is_absolute():
            raise UserError("scratch", self.scratch, "an absolute path")
        return self


class AgentLauncher(Launcher):
    """Hosts with an agent each, which the engine of a subclass starts.

    The agents stay for the runs that follow; they end with this process.
    """

    capabilities: frozenset[Capability] = frozenset({"aligned_clocks"})
    settings = frozenset({"hosts", "placement"})
    Options: type[AgentOptions] = AgentOptions

    @contextlib.contextmanager
    def open(self, topology: Topology, folder: Path) -> Iterator[AgentCluster]:
        """Open a cluster on agents, which are started unless they are up."""
        options = parse_config(self.Options, topology.options, "topology.options")
        session = open_session(self.start(topology, options))
        cluster = AgentCluster(topology, session, folder)
        try:
            yield cluster
        finally:
            cluster.close()

    def start_commands(self, topology: Topology) -> dict[str, str]:
        """Return the command line that starts the agent of each host, or those of all hosts."""
        options = parse_config(self.Options, topology.options, "topology.options")
        commands = self.start(topology, options).commands
        if any(command.number is None for command in commands):
            return {"all hosts": shlex.join(commands[0].argv)}
        pairs = zip(topology.all_hosts, commands, strict=False)  # more hosts may be named
        return {host: shlex.join(command.argv) for host, command in pairs}

    def start(self, topology: Topology, options: AgentOptions) -> Start:
        """Return how the agents of a topology are started; subclasses implement it."""
        raise NotImplementedError

    def _start(
        self,
        field: str,
        commands: tuple[Command, ...],
        hosts: tuple[str, ...],
        agents: int,
        options: AgentOptions,
    ) -> Start:
        return Start(
            field=field,
            commands=commands,
            agents=agents,
            address=options.address or route_address(hosts),
            scratch=options.scratch or tempfile.gettempdir(),
            timeout_s=options.start_timeout_s,
            lease_s=options.lease_s,
        )


def agent_program() -> tuple[str, ...]:
    """Return the command line of an agent, to which a session adds its options."""
    return (sys.executable, "-m", "horizont.launchers.agent")


def route_address(hosts: Sequence[str]) -> str:
    """Return the address of this machine at which all hosts reach it; loopback if unknown."""
    addresses = []
    for host in hosts:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
            contextlib.suppress(OSError),
        ):
            probe.connect((host.rpartition("@")[2], 9))  # sends nothing
            addresses.append(str(probe.getsockname()[0]))
    return next((each for each in addresses if not each.startswith("127.")), "127.0.0.1")
