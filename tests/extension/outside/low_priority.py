"""Launcher `low_priority`: processes on this machine that yield to all other programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from horizont.config.base import ConfigModel, parse_config
from horizont.config.topology import Capability, Topology
from horizont.launchers.local import LocalCluster
from horizont.launchers.plan import ProcessPlan
from horizont.launchers.process import ProcessGroup


class Options(ConfigModel):
    """The options of the launcher."""

    niceness: int = Field(default=10, ge=1, le=19)


class LowPriorityProcess(ProcessGroup):
    """A process with a lower scheduling priority."""

    def __init__(self, plan: ProcessPlan, log: Path, niceness: int) -> None:
        super().__init__(plan, log, prefix=("nice", "-n", str(niceness)))
        self.niceness = niceness

    @property
    def details(self) -> Mapping[str, Any]:
        """Where and how the process runs."""
        return {**super().details, "niceness": self.niceness}


class LowPriorityCluster(LocalCluster):
    """This machine."""

    def __init__(self, topology: Topology, stack: contextlib.ExitStack, options: Options) -> None:
        super().__init__(topology, stack)
        self._options = options

    def start(self, plan: ProcessPlan, log: Path) -> LowPriorityProcess:
        """Start a process."""
        return LowPriorityProcess(plan, log, self._options.niceness)


class LowPriorityLauncher:
    """Processes on this machine, with an option."""

    capabilities: frozenset[Capability] = frozenset({"shared_clock"})
    settings = frozenset({"addresses", "base_port"})
    Options = Options

    def unavailable_reason(self, topology: Topology) -> str:
        """Return nothing: every machine can start processes."""
        del topology
        return ""

    @contextlib.contextmanager
    def open(self, topology: Topology, folder: Path) -> Iterator[LowPriorityCluster]:
        """Open a cluster on this machine."""
        del folder
        options = parse_config(Options, topology.options, "topology.options")
        with contextlib.ExitStack() as stack:
            yield LowPriorityCluster(topology, stack, options)


LAUNCHER = LowPriorityLauncher()
