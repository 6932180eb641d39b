"""What is done to a process from outside, and what it may be done to."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import psutil

from horizont.launchers.netns import HOST_INTERFACE
from horizont.workflow.chaos.clocks import set_clock
from horizont.workflow.chaos.nodes import drain

TargetKind = Literal["process", "sampler", "agent", "launcher"]

#: A clock is set by so many seconds: more than a daemon corrects without setting it, and less than
#: the timeouts of the frameworks.
CLOCK_STEP_S = 3.0

#: A throttled process runs for a fifth of each period, in seconds, for two seconds.
THROTTLED_S, PERIOD_S, CPU_FRACTION = 2.0, 0.1, 0.2


@dataclass(frozen=True)
class ChaosFault:
    """A fault that can happen to any process, without its cooperation.

    Attributes
    ----------
    past_participle
        What has happened to the target, for prose.
    inject
        Does it to a process; raises `psutil.Error` if the process has ended.
    targets
        What it is injected into: a planned process of the run, the sampler, an agent, or the
        launcher itself.
    is_fatal, is_harmless
        Whether a process to which it happened cannot complete its part, or has to complete it.
    needs_hosts
        Whether each process needs a network of its own, as on emulated hosts.
    sets_clock
        Whether a wall clock is set, for which a library has to be compiled.
    drains_node
        Whether a node of Slurm is set to drain, which needs its administrator's rights.
    """

    past_participle: str
    inject: Callable[[psutil.Process], None]
    targets: tuple[TargetKind, ...]
    is_fatal: bool = False
    is_harmless: bool = False
    needs_hosts: bool = False
    sets_clock: bool = False
    drains_node: bool = False


def _signal(number: signal.Signals) -> Callable[[psutil.Process], None]:
    return lambda process: process.send_signal(number)


def _throttle(process: psutil.Process) -> None:
    end_s = time.monotonic() + THROTTLED_S
    while time.monotonic() < end_s:
        process.suspend()
        time.sleep(PERIOD_S * (1 - CPU_FRACTION))
        process.resume()
        time.sleep(PERIOD_S * CPU_FRACTION)


def _limit_memory(process: psutil.Process) -> None:
    """Refuse the process any address space beyond what it has."""
    size = process.memory_info().vms
    process.rlimit(psutil.RLIMIT_AS, (size, size))


def _fill_disk(process: psutil.Process) -> None:
    """Limit all files to no bytes: writes fail as on a full disk, and sockets are not affected."""
    process.rlimit(psutil.RLIMIT_FSIZE, (0, 0))


def _disconnect(process: psutil.Process) -> None:
    """Set the interface of the network namespace down in which a process runs."""
    namespace = ["nsenter", f"--target={process.pid}", "--net"]
    command = [*namespace, "ip", "link", "set", HOST_INTERFACE, "down"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and process.is_running():
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    if done.returncode:
        raise psutil.NoSuchProcess(process.pid)


def _step_clock(step_s: float) -> ChaosFault:
    direction = "ahead" if step_s > 0 else "back"
    return ChaosFault(
        f"with its host's clock set {direction} by {abs(step_s):g} s",
        lambda process: set_clock(process, step_s),
        ("process", "agent"),
        is_harmless=True,
        sets_clock=True,
    )


#: The faults by name. A terminal that closes sends SIGHUP, and a batch system SIGTERM.
FAULTS: dict[str, ChaosFault] = {
    "kill": ChaosFault(
        "killed", _signal(signal.SIGKILL), ("process", "sampler", "agent", "launcher"), True
    ),
    "terminate": ChaosFault(
        "terminated", _signal(signal.SIGTERM), ("process", "agent", "launcher"), True
    ),
    "interrupt": ChaosFault("interrupted", _signal(signal.SIGINT), ("launcher",), True),
    "hang_up": ChaosFault("cut off from its terminal", _signal(signal.SIGHUP), ("launcher",), True),
    "pause": ChaosFault("paused", _signal(signal.SIGSTOP), ("process", "sampler", "agent"), True),
    "throttle": ChaosFault("throttled", _throttle, ("process",), is_harmless=True),
    "limit_memory": ChaosFault("denied more memory", _limit_memory, ("process", "sampler")),
    "fill_disk": ChaosFault("denied a disk", _fill_disk, ("process", "sampler", "launcher")),
    "disconnect": ChaosFault(
        "cut off from the network", _disconnect, ("process",), is_fatal=True, needs_hosts=True
    ),
    "set_clock_ahead": _step_clock(CLOCK_STEP_S),
    "set_clock_back": _step_clock(-CLOCK_STEP_S),
    "drain": ChaosFault(
        "on a node that is set to drain", drain, ("agent",), is_harmless=True, drains_node=True
    ),
}
