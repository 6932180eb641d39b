"""A session: agents that an engine has started once, and that serve one run after the other."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from horizont.errors import Problem, RunFailed, UserError
from horizont.launchers.agent.connections import PING_S, AgentConnection, AgentListener
from horizont.launchers.agent.facts import code_digest
from horizont.launchers.agent.files import PREFIX
from horizont.launchers.agent.wire import SECRET_VARIABLE, new_secret
from horizont.monitoring.process_control import child_environment, defer_interrupts

#: Seconds for the programs of the engine to end by themselves.
END_S = 5.0


@dataclass(frozen=True)
class Command:
    """A command that starts one agent or several.

    Attributes
    ----------
    argv
        Ends with the program of the agent, without the options that a session adds.
    number
        The number of its only agent; None if the engine numbers several.
    """

    argv: tuple[str, ...]
    number: int | None = None

    @property
    def engine(self) -> str:
        """The command line without the program of the agent."""
        return shlex.join(takewhile(lambda word: word != sys.executable, self.argv))


@dataclass(frozen=True)
class Start:
    """How a launcher starts its agents.

    Attributes
    ----------
    field
        The setting that an error is about.
    address
        The address of this machine at which the hosts reach it.
    scratch
        The folder on each host in which an agent creates that of its temporary files.
    port
        Where the agents connect; 0 for any free port.
    secret
        That of agents which are not started by a command of this process; empty for a new one.
    exclusive_hosts
        Whether no other job can use the hosts; None if no scheduler says so.
    explain_loss
        Returns why the scheduler has taken the hosts away; nothing if it has not.
    """

    field: str
    commands: tuple[Command, ...]
    agents: int
    address: str
    scratch: str
    timeout_s: float
    lease_s: float
    port: int = 0
    secret: str = ""
    exclusive_hosts: bool | None = None
    explain_loss: Callable[[], str] = str


class Session:
    """The agents of a launcher, numbered from 0, and the programs of the engine that started them.

    Agents that do not connect in time, or that have other code than this machine, are a
    `UserError`.
    """

    def __init__(self, start: Start) -> None:
        self.folder = Path(start.scratch) / f"{PREFIX}{os.getpid()}-{new_secret()[:8]}"
        self.lease_s = start.lease_s
        self.exclusive_hosts = start.exclusive_hosts
        self.agents: list[AgentConnection] = []
        self._secret = start.secret or new_secret()
        self._is_open = True
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._programs: list[subprocess.Popen[str]] = []
        listener = _listen(start, self._secret)
        threading.Thread(target=self._renew_leases, daemon=True, name="agent-leases").start()
        try:
            self._launch(start, listener.port)
            self.agents = self._await_agents(start, listener)
            self._check(start)
            self.folder = Path(self.agents[0].facts["folder"])
        except BaseException:
            self.close()
            raise
        finally:
            listener.close()

    @property
    def is_usable(self) -> bool:
        """Whether no host has been lost."""
        return self._is_open and not any(agent.lost for agent in self.agents)

    def close(self) -> None:
        """Stop the agents and the programs of the engine."""
        with defer_interrupts():
            self._is_open = False
            for agent in self.agents:
                agent.close()
            end_s = time.monotonic() + END_S
            for program in self._programs:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(max(0.0, end_s - time.monotonic()))
                    continue
                program.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(END_S)
                program.kill()
                program.wait()
            self._log.close()

    def _launch(self, start: Start, port: int) -> None:
        options = [f"--launcher={start.address}:{port}", f"--folder={self.folder}"]
        options += [f"--lease={start.lease_s}"]
        for command in start.commands:
            number = [] if command.number is None else [f"--number={command.number}"]
            with defer_interrupts():
                self._programs.append(self._start_program(start, command, options + number))

    def _start_program(
        self, start: Start, command: Command, options: Sequence[str]
    ) -> subprocess.Popen[str]:
        """Start a command; the secret goes into its environment and to its standard input."""
        try:
            program = subprocess.Popen(
                [*command.argv, *options],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                env=child_environment(**{SECRET_VARIABLE: self._secret}),
                text=True,
                start_new_session=True,  # a Ctrl-C is for the launcher, which ends the session
            )
        except OSError as error:
            allowed = f"a command that can be started ({error.strerror})"
            raise UserError(start.field, command.argv[0], allowed) from None
        assert program.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            program.stdin.write(f"{self._secret}\n")
            program.stdin.flush()
        return program

    def _await_agents(self, start: Start, listener: AgentListener) -> list[AgentConnection]:
        """Wait for all agents; return them by their numbers."""
        end_s = time.monotonic() + start.timeout_s
        agents: dict[int, AgentConnection] = {}
        while len(agents) < start.agents:
            agent = listener.wait(0.2)
            if agent is not None:
                agent.explain_loss = start.explain_loss
                agents[int(agent.facts["number"])] = agent
                self.agents = list(agents.values())  # to be closed if the others are missing
            elif failed := [n for n, program in enumerate(self._programs) if program.poll()]:
                status = self._programs[failed[0]].poll()
                command = start.commands[failed[0]]
                raise self._not_started(start, command, f"ended with status {status}")
            elif time.monotonic() > end_s:
                missing = (each for each in start.commands if each.number not in agents)
                number = start.agents - len(agents)
                problem = (
                    f"{number} of {start.agents} agents did not call back "
                    f"within {start.timeout_s:g} s"
                )
                raise self._not_started(start, next(missing, None), problem)
        return [agents[number] for number in sorted(agents)]

    def _not_started(self, start: Start, command: Command | None, problem: str) -> Exception:
        """Return an error with a command, what became of it, and what was printed.

        Or with what the scheduler has done, which is no mistake of the user.
        """
        if reason := start.explain_loss():
            return RunFailed(reason)
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().splitlines()]
        lines = [line for line in lines if re.search(r"\w", line)]
        errors = [line for line in lines if re.search(r"\berror: ", line)]
        said = " / ".join(errors[:1] or lines[-2:])
        name = f"`{command.engine}`: " if command else ""
        found = Problem(f"{name}{problem}{': ' if said else ''}{said}")
        return UserError(start.field, found, f"agents on {start.agents} hosts")

    def _check(self, start: Start) -> None:
        folders = {agent.facts["folder"] for agent in self.agents}
        if len(folders) > 1:
            raise UserError(f"{start.field} (--folder)", sorted(folders), "the same on all hosts")
        for agent in self.agents:
            if agent.facts["code"] != code_digest():
                allowed = "hosts with the same source code of Horizont as this machine"
                raise UserError(f"{start.field} (code)", agent.node, allowed)

    def _renew_leases(self) -> None:
        """Check all agents: those that wait for others, and those beside a lost one, too."""
        while self._is_open:
            for agent in self.agents:
                agent.check()
            time.sleep(PING_S / 2)


def _listen(start: Start, secret: str) -> AgentListener:
    try:
        return AgentListener(start.address, start.port, secret, start.lease_s, start.agents)
    except OSError as error:
        where = f"{start.address}:{start.port}" if start.port else start.address
        allowed = f"an address of this machine ({error.strerror})"
        raise UserError("topology.options.address", where, allowed) from None


_sessions: dict[Start, Session] = {}


def open_session(start: Start) -> Session:
    """Return a session with these agents: the open one, or a new one if a host was lost."""
    session = _sessions.get(start)
    if session is None or not session.is_usable:
        close_sessions()  # the agents of another launcher may be on the same hosts
        session = _sessions[start] = Session(start)
    return session


@atexit.register
def close_sessions() -> None:
    """Stop all agents that this process has started."""
    while _sessions:
        _sessions.popitem()[1].close()
