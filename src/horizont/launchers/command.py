"""Launcher `command`: agents started by a command, such as ssh or mpirun, that the user gives."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence

from pydantic import Field, model_validator

from horizont.config.base import parse_config
from horizont.config.topology import Topology
from horizont.errors import UserError
from horizont.launchers.agent.launcher import AgentLauncher, AgentOptions, agent_program
from horizont.launchers.agent.session import Command, Start
from horizont.launchers.agent.wire import SECRET_VARIABLE
from horizont.wording import counted

#: Commands by name. With ``{host}`` a command is started for each host; one with ``{hosts}`` starts
#: all agents, and passes on the variable of the secret, since only its first process has an input.
TEMPLATES = {
    "ssh": "ssh -o BatchMode=yes {host}",
    "mpirun": (
        # An agent and its processes are not bound to the core of one MPI process.
        "mpirun --oversubscribe --bind-to none "
        f"-x {SECRET_VARIABLE} -x PYTHONPATH --host {{hosts}} -n {{n}}"
    ),
}

FIELD = "topology.options.command"


class CommandOptions(AgentOptions):
    """Options of the launcher.

    Attributes
    ----------
    command
        A name in `TEMPLATES`, or a command line that runs what follows it on a host: with
        ``{host}`` on one, with ``{hosts}`` (joined by commas) and ``{n}`` on all.
    hosts
        Names of the machines, in the order of ``host-0``, ``host-1``...
    """

    command: str = "ssh"
    hosts: tuple[str, ...] = Field(default=("localhost",), min_length=1)

    @property
    def template(self) -> str:
        """The command line."""
        return TEMPLATES.get(self.command, self.command)

    @model_validator(mode="after")
    def _check_template(self) -> CommandOptions:
        allowed = f"{', '.join(TEMPLATES)}, or a command line with {{host}} or {{hosts}}"
        try:
            words = shlex.split(self.template.format(host="h", hosts="h", n=1))
        except (ValueError, KeyError, IndexError):
            raise UserError("command", self.command, allowed) from None
        if not words or ("{host}" in self.template) == ("{hosts}" in self.template):
            raise UserError("command", self.command, allowed)
        return self


class CommandLauncher(AgentLauncher):
    """Machines on which a command of the user starts the agents."""

    Options = CommandOptions

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what the command lacks; empty if it can be tried."""
        options = parse_config(CommandOptions, topology.options, "topology.options")
        program = shlex.split(options.template)[0]
        if shutil.which(program) is None:
            return f"{program} is not installed"
        hosts, needed = len(options.hosts), len(topology.all_hosts)
        if hosts < needed and "hosts" not in topology.options:
            return f"topology.options.hosts: missing; {needed} names are needed"
        if hosts < needed:
            return f"topology.options.hosts has {counted(hosts, 'name')}, and {needed} are needed"
        return ""

    def start(self, topology: Topology, options: AgentOptions) -> Start:
        """Return how the agents of all hosts are started."""
        assert isinstance(options, CommandOptions)
        commands = _commands(options.template, options.hosts)
        return self._start(FIELD, commands, options.hosts, len(options.hosts), options)


LAUNCHER = CommandLauncher()


def _commands(template: str, hosts: Sequence[str]) -> tuple[Command, ...]:
    if "{hosts}" in template:
        words = shlex.split(template.format(hosts=",".join(hosts), n=len(hosts)))
        return (Command((*words, *agent_program())),)
    return tuple(
        Command((*shlex.split(template.format(host=host, n=len(hosts))), *agent_program()), number)
        for number, host in enumerate(hosts)
    )
