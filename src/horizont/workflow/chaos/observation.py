"""A run as it is seen from outside: its processes, and how far they are.

All processes of a case inherit a variable, by which they are found wherever they run on this
machine and whatever became of their parents.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from horizont.launchers.plan import EVENTS_FILE, JOB_FILE
from horizont.records.files import read_events, read_json

VARIABLE = "HORIZONT_CHAOS_CASE"

SAMPLER_MODULE, AGENT_MODULE = "horizont.monitoring.sampler", "horizont.launchers.agent"


@dataclass(frozen=True)
class Observation:
    """The run of a case while it is executed.

    Attributes
    ----------
    store, key
        Where its record will be.
    mark
        The value of the variable in its processes.
    """

    store: Path
    key: str
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def processes(self) -> list[psutil.Process]:
        """List the live processes of the run, the launcher included."""
        return list(self._processes())

    def _processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if process.environ().get(VARIABLE) == self.mark:
                    yield process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue

    def incomplete_record(self) -> Path | None:
        """Return the folder of the record while it is written."""
        return next(iter(self.store.glob(f".{self.key}.*.tmp")), None)

    def has_reached(self, process: str, stage: str) -> bool:
        """Whether a process has logged an event, or the launcher has logged it of the process."""
        folder = self.incomplete_record()
        if folder is None:
            return False
        events = read_events(folder / "processes" / process / EVENTS_FILE)
        events += [
            event
            for event in read_events(folder / "events.jsonl")
            if event.get("process") == process
        ]
        return any(event["event"] == stage for event in events)

    def ports(self) -> set[int]:
        """Return the ports on which the planned processes listen; none once the run is over."""
        folder = self.incomplete_record()
        jobs = list(folder.glob(f"processes/*/{JOB_FILE}")) if folder else []
        try:
            listed = [one for job in jobs for one in read_json(job)["endpoints"].values()]
        except (OSError, ValueError):  # the run is over, and its folder has been renamed
            return set()
        return {int(endpoint.rsplit(":", 1)[1]) for group in listed for endpoint in group}

    def planned_process(self, name: str) -> psutil.Process | None:
        """Return a process of the plan; None if it has not been started, or has ended."""
        folder = self.incomplete_record()
        events = read_events(folder / "events.jsonl") if folder else []
        started = [e for e in events if e["event"] == "started" and e["process"] == name]
        try:
            return psutil.Process(started[-1]["pid"]) if started else None
        except psutil.NoSuchProcess:
            return None

    def helper(self, module: str, number: int = 0) -> psutil.Process | None:
        """Return the sampler, or an agent, by its module and its number in the order of start."""
        # Without the engine that starts it, which has its command among its arguments.
        found = [one for one in self._processes() if _command(one)[1:3] == ["-m", module]]
        found.sort(key=lambda process: process.pid)
        return found[number] if number < len(found) else None


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def listening_ports() -> set[int]:
    """Return the ports of this machine on which a process listens."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A":
                ports.add(int(columns[1].rsplit(":", 1)[1], 16))
    return ports
