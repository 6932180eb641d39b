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
from horizont.errors import UserError
from horizont.launchers.agent.launcher import AgentLauncher, AgentOptions
from horizont.launchers.agent.session import Start
from horizont.launchers.agent.wire import MIN_SECRET_DIGITS, SECRET_VARIABLE, is_secret

FIELD = "topology.options.agents"

#: How many agents wait, if the options do not say it.
AGENTS_VARIABLE = "HORIZONT_AGENTS"


class StandbyOptions(AgentOptions):
    """Options of the launcher.

    Attributes
    ----------
    agents
        The number of agents that wait; 0 for that in `AGENTS_VARIABLE`, or else for as many as the
        run has hosts.
    port
        Where they connect.
    """

    agents: int = Field(default=0, ge=0, le=1024)
    port: int = Field(default=4711, ge=1, le=65535)


class StandbyLauncher(AgentLauncher):
    """Agents that wait for this process, see ``deploy/helm``."""

    Options = StandbyOptions

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what the launcher lacks; empty if it can be tried."""
        options = parse_config(StandbyOptions, topology.options, "topology.options")
        if not is_secret(os.environ.get(SECRET_VARIABLE, "")):
            return f"{SECRET_VARIABLE} is not set to {MIN_SECRET_DIGITS} or more hexadecimal digits"
        needed, waiting = len(topology.all_hosts), _waiting(options, topology)
        if waiting < needed:
            return f"{waiting} of the {needed} agents that are needed wait"
        return ""

    def start(self, topology: Topology, options: AgentOptions) -> Start:
        """Return where the agents are awaited."""
        assert isinstance(options, StandbyOptions)
        return replace(
            self._start(FIELD, (), (), _waiting(options, topology), options),
            address=options.address or _own_address(),
            port=options.port,
            secret=os.environ[SECRET_VARIABLE],
        )


LAUNCHER = StandbyLauncher()


def _waiting(options: StandbyOptions, topology: Topology) -> int:
    """Return how many agents wait."""
    known = os.environ.get(AGENTS_VARIABLE, "")
    if options.agents or not known:
        return options.agents or len(topology.all_hosts)
    if not known.isdecimal() or not int(known):
        raise UserError(AGENTS_VARIABLE, known, "a number of agents above 0")
    return int(known)


def _own_address() -> str:
    """Return the address of this machine's name, which in a pod is that of the pod."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
