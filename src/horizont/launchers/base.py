"""What a launcher has to offer: hosts for the time of a run, and handles of the processes on them.

A launcher is a module with a `LAUNCHER` and a line in `horizont.launchers.LAUNCHERS`. Nothing here
needs a file system that all hosts share. A process reads the `inputs` of its plan and writes below
its folder, under the same absolute paths on every host. A launcher for other machines copies the
inputs in `Cluster.start` and the outputs in `ProcessHandle.fetch_outputs`; on this machine they
are in place.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, cast

from horizont.config.base import ConfigModel, parse_config
from horizont.config.run import Run
from horizont.config.topology import Capability, Topology
from horizont.errors import UserError
from horizont.launchers import LAUNCHERS
from horizont.launchers.plan import EVENTS_FILE, PROGRESS_FILE, ProcessPlan
from horizont.monitoring.background import BackgroundLoad
from horizont.monitoring.client import SamplerClient, SamplerResult, start_sampler
from horizont.monitoring.progress import StepCount, read_step_count
from horizont.records.files import read_events

#: The settings of a topology that a launcher may or may not support.
OPTIONAL_SETTINGS = (
    "addresses",
    "base_port",
    "hosts",
    "placement",
    "link",
    "cpus_per_host",
    "pin_hosts",
    "device",
)


class Sampler(Protocol):
    """What samples the processes and hosts of a run."""

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait for the first sample; return whether it was taken within `timeout_s` seconds."""

    def stop(self) -> SamplerResult:
        """Stop sampling and return the result; the same when called again."""


class ProcessHandle(Protocol):
    """A started process together with everything that it starts.

    `fileno` makes handles usable with `selectors`. The defaults are those of a process that writes
    to this machine's files.
    """

    plan: ProcessPlan

    @property
    def name(self) -> str:
        """Name of the planned process."""
        return self.plan.name

    @property
    def details(self) -> Mapping[str, Any]:
        """Where the process runs, for the event log: a process ID, or the ID of a job."""

    @property
    def exit_status(self) -> int | None:
        """Exit status, or minus the signal that ended the process; None before `reap`."""

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when the process has ended."""

    def signal(self, number: int) -> None:
        """Send a signal to the process and all its descendants; none if they have ended."""

    def reap(self) -> int:
        """Stop what is left of the process at once and return its exit status."""

    def is_stopped(self) -> bool:
        """Whether the process is stopped by a signal."""

    def cpu_time_s(self) -> float | None:
        """Return the CPU time that the process has used; None if it is unknown by now."""

    def step_count(self) -> StepCount | None:
        """Return the steps done and planned; None while the process counts none."""
        return read_step_count(self.plan.folder / PROGRESS_FILE)

    def events(self) -> list[dict[str, Any]]:
        """Read the event log of the process, as far as it has been written."""
        return read_events(self.plan.folder / EVENTS_FILE)

    def last_error(self) -> str:
        """Return the last error that the process printed, or its last line."""

    def fetch_outputs(self) -> None:
        """Read what the process has written so far into `plan.folder` on this machine."""
        return

    def attach_sampler(self, sampler: SamplerClient) -> None:
        """Sample the process by the sampler of this machine."""
        del sampler


class Cluster(Protocol):
    """The hosts of a run.

    The defaults are those of hosts that share the files and the CPUs of this machine.
    """

    def endpoints(self, hosts: Sequence[str]) -> list[str]:
        """Return an ``address:port`` to listen on for each process, given by its host.

        It is reserved for the run until the cluster is closed.
        """

    def start(self, plan: ProcessPlan, log: Path) -> ProcessHandle:
        """Start a process on its host; what it prints goes to a file on this machine."""

    def release(self, barrier: Path) -> None:
        """Create an empty file for which processes wait, on all hosts; again it changes nothing."""
        barrier.touch()

    def facts(self) -> dict[str, Any]:
        """Return the facts of each host by its name; nothing if they are those of this machine."""
        return {}

    def further_capabilities(self) -> frozenset[Capability]:
        """Return what these hosts can do beside what the launcher always can."""
        return frozenset()

    def has_exclusive_hosts(self) -> bool | None:
        """Whether no other job can use the hosts meanwhile; None if no scheduler says so."""
        return None

    def start_sampler(self, folder: Path, interval_s: float, device: str) -> Sampler:
        """Start to sample all hosts; the table is written to a folder on this machine."""
        return start_sampler(folder, interval_s, ready_timeout_s=0, device=device)

    def attach_sampler(self, sampler: SamplerClient) -> None:
        """Sample the hosts' interfaces and helper processes, if this machine has any."""
        return

    def background_load(self) -> BackgroundLoad | None:
        """Return the load by other programs during the run; None if this machine measures it."""
        return None

    def host_events(self) -> list[dict[str, Any]]:
        """Return what to log of hosts that are other machines, when the run is over."""
        return []

    def apply_cpu_quota(self) -> None:
        """Apply the limit of ``cpus_per_host`` to all hosts; again it changes nothing."""
        return

    def disconnect(self, host: str) -> None:
        """Stop all network traffic of a host."""

    def reconnect(self, host: str) -> None:
        """Restore the network of a host."""


class NoOptions(ConfigModel):
    """The options of a launcher that has none."""


class Launcher(Protocol):
    """A way to run processes on hosts.

    Attributes
    ----------
    capabilities
        What the launcher can do; written to the record, for analysis.
    settings
        Those of `OPTIONAL_SETTINGS` that the launcher supports.
    Options
        Model of ``topology.options``.
    """

    capabilities: frozenset[Capability]
    settings: frozenset[str]
    Options: type[ConfigModel] = NoOptions

    def unavailable_reason(self, topology: Topology) -> str:
        """Return what a topology needs and this machine lacks; empty if it can be used."""
        del topology
        return ""

    def start_commands(self, topology: Topology) -> dict[str, str]:
        """Return the command line that starts each host, or all of them, for a dry run."""
        del topology
        return {}

    def open(self, topology: Topology, folder: Path) -> AbstractContextManager[Cluster]:
        """Create the hosts of a topology, removed at the end of the context.

        Temporary files are written to the folder. A `UserError` says what the system does not
        allow.
        """


def get_launcher(name: str) -> Launcher:
    """Load a launcher by its name; refuse an unknown one."""
    if name not in LAUNCHERS:
        raise UserError("topology.launcher", name, sorted(LAUNCHERS))
    return cast(Launcher, importlib.import_module(LAUNCHERS[name]).LAUNCHER)


def check_topology(topology: Topology) -> None:
    """Raise a `UserError` for settings that the launcher of a topology does not support."""
    launcher = get_launcher(topology.launcher)
    for name in OPTIONAL_SETTINGS:
        value = getattr(topology, name)
        if name not in launcher.settings and value != Topology.model_fields[name].default:
            shown = value.model_dump(exclude_defaults=True) if name == "link" else value
            allowed = f"the default, or the launcher {_launchers_with('settings', name)}"
            raise UserError(f"topology.{name}", shown, allowed)
    for name, value in topology.options.items():
        others = [one for one in LAUNCHERS if name in get_launcher(one).Options.model_fields]
        if others and topology.launcher not in others:
            own = ", ".join(launcher.Options.model_fields) or "nothing"
            allowed = (
                f"{own} with the launcher {topology.launcher}; "
                f"{name} is an option of the launcher {' or '.join(others)}"
            )
            raise UserError(f"topology.options.{name}", value, allowed)
    parse_config(launcher.Options, topology.options, "topology.options")


def check_run(run: Run) -> None:
    """Raise a `UserError` for a topology or a fault that the launcher of a run does not support."""
    check_topology(run.topology)
    is_disconnect = run.fault is not None and run.fault.kind == "disconnect"
    if is_disconnect and "disconnect" not in get_launcher(run.topology.launcher).capabilities:
        able = _launchers_with("capabilities", "disconnect")
        raise UserError("faults", "disconnect", f"other kinds, or the launcher {able}")


def _launchers_with(attribute: str, name: str) -> str:
    return " or ".join(each for each in LAUNCHERS if name in getattr(get_launcher(each), attribute))


def unavailable_reason(topology: Topology) -> str:
    """Return what a topology needs and this machine lacks; empty if it can be used here."""
    return get_launcher(topology.launcher).unavailable_reason(topology)


def open_cluster(topology: Topology, folder: Path) -> AbstractContextManager[Cluster]:
    """Create the hosts of a topology, removed at the end of the context.

    A topology that the launcher does not support, or this machine does not allow, is refused.
    """
    check_topology(topology)
    if reason := unavailable_reason(topology):
        raise UserError("topology.launcher", topology.launcher, f"local ({reason})")
    return get_launcher(topology.launcher).open(topology, folder)
