"""Launcher `standby`: agents that another program, such as Kubernetes, starts, and that wait.

They know the launcher's address and port, and the secret, which is in the environment of both.
"""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from pydantic import Field

from horizont.config.base import parse_config
from horizont.config.topology import Topology
from horizont.launchers.agent.launcher import AgentLauncher, AgentOptions
from horizont.launchers.agent.session import Start
from horizont.launchers.agent.wire import MIN_SECRET_DIGITS, SECRET_VARIABLE, is_secret

FIELD = "topology.options.agents"


class StandbyOptions(AgentOptions):
    """Options of the launcher.

    Attributes
    ----------
    agents
        The number of agents that wait; 0 for as many as the run has hosts.
    port
        Where they connect.
    """

    agents: int = Field(default=0, ge=0, le=1024)
    port: int = Field(default=4711, ge=1, le=65535)


class StandbyLauncher(AgentLauncher):
    """Agents that wait for this process, see ``deploy/kubernetes``."""

    Options = StandbyOptions

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what the launcher lacks; empty if it can be tried."""
        options = parse_config(StandbyOptions, topology.options, "topology.options")
        if not is_secret(os.environ.get(SECRET_VARIABLE, "")):
            return f"{SECRET_VARIABLE} is not set to {MIN_SECRET_DIGITS} or more hexadecimal digits"
        needed = len(topology.all_hosts)
        if options.agents and options.agents < needed:
            return f"{options.agents} of the {needed} agents that are needed wait"
        return ""

    def start(self, topology: Topology, options: AgentOptions) -> Start:
        """Return where the agents are awaited."""
        assert isinstance(options, StandbyOptions)
        agents = options.agents or len(topology.all_hosts)
        return replace(
            self._start(FIELD, (), (), agents, options),
            address=options.address or _own_address(),
            port=options.port,
            secret=os.environ[SECRET_VARIABLE],
        )


LAUNCHER = StandbyLauncher()


def _own_address() -> str:
    """Return the address of this machine's name, which in a pod is that of the pod."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
