"""The handle of a process on the host of an agent."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from horizont.errors import HostLost
from horizont.launchers.agent.clock import ClockOffset, shift_event, shift_times
from horizont.launchers.agent.connections import AgentConnection
from horizont.launchers.base import ProcessHandle
from horizont.launchers.plan import EVENTS_FILE, PROGRESS_FILE, ProcessPlan
from horizont.monitoring.progress import StepCount, StepCounter

#: Exit status of a process whose host is lost, as of ssh.
LOST_STATUS = 255


class RemoteProcess(ProcessHandle):
    """A process on another host: the state that its agent last reported, and requests to the agent.

    `update` and `end` are called by the thread that reads the agent's frames. `shift` is the offset
    of the host's clock, see `horizont.launchers.agent.clock.shift_times`.
    """

    def __init__(
        self,
        plan: ProcessPlan,
        log: Path,
        agent: AgentConnection,
        shift: tuple[ClockOffset, dict[int, float]],
    ) -> None:
        self.plan = plan
        self.pid: int | None = None
        self._log = log
        self._agent = agent
        self._shift = shift
        self._state: Mapping[str, Any] = {}
        self._counter: StepCounter | None = None
        self._last_error = ""
        self._exit_status: int | None = None
        self._ended = os.eventfd(0)
        self._closing = threading.Lock()
        self._is_closed = False

    def update(self, state: Mapping[str, Any]) -> None:
        """Replace the state by a newer one, and write what `horizont watch` reads of it."""
        last, self._state = self._state, state
        with contextlib.suppress(OSError):  # the run is over
            if (count := self.step_count()) is not None:
                if self._counter is None:
                    self._counter = StepCounter(self.plan.folder / PROGRESS_FILE, count.planned)
                self._counter.set(count.done)
            if state.get("events") != last.get("events"):
                lines = (json.dumps(event) + "\n" for event in self.events())
                (self.plan.folder / EVENTS_FILE).write_text("".join(lines), encoding="utf-8")

    def end(self, last_error: str) -> None:
        """Mark the process as ended, with the last error that is known."""
        self._last_error = last_error
        with self._closing:
            if not self._is_closed:
                os.eventfd_write(self._ended, 1)

    def close(self) -> None:
        """Close the file descriptor."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._ended)

    @property
    def details(self) -> Mapping[str, Any]:
        """The process ID on its host, and the host."""
        return {"pid": self.pid, "host": self.plan.host}

    @property
    def exit_status(self) -> int | None:
        """Exit status, or minus the signal that ended the process; None before `reap`."""
        return self._exit_status

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when the process or its host is gone."""
        return self._ended

    def signal(self, number: int) -> None:
        """Send a signal; a lost host has no process left that could receive it."""
        if self._exit_status is None:
            with contextlib.suppress(HostLost):
                self._agent.request("signal", name=self.name, number=number)

    def reap(self) -> int:
        """Stop what is left of the process and return its exit status; 255 on a lost host."""
        if self._exit_status is None:
            try:
                self._exit_status = int(self._agent.request("reap", name=self.name)["status"])
            except HostLost as error:
                self._exit_status, self._last_error = LOST_STATUS, str(error)
        return self._exit_status

    def is_stopped(self) -> bool:
        """Whether the process was last reported as stopped by a signal."""
        return bool(self._state.get("is_stopped"))

    def cpu_time_s(self) -> float | None:
        """Return the CPU time that was last reported."""
        return self._state.get("cpu_s")

    def step_count(self) -> StepCount | None:
        """Return the steps that were last reported."""
        count = self._state.get("step_count")
        return None if count is None else StepCount(*count)

    def events(self) -> list[dict[str, Any]]:
        """Return the events that were last reported, with times of this machine's clock."""
        return [shift_event(event, self._shift[0]) for event in self._state.get("events", [])]

    def last_error(self) -> str:
        """Return the last error that the process has printed, or that its host is lost."""
        if self._last_error:
            return self._last_error
        with contextlib.suppress(HostLost):
            return str(self._agent.request("last_error", name=self.name)["last_error"])
        return self._agent.lost

    def fetch_outputs(self) -> None:
        """Copy what the process has written so far, and its log; nothing from a lost host."""
        try:
            for message, body in self._agent.exchange("outputs", name=self.name):
                if message["kind"] == "part":
                    path = self._place_of(message["name"])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("r+b" if message["offset"] else "wb") as file:
                        file.seek(message["offset"])
                        file.write(body)
            shift_times(self.plan.folder, *self._shift)
        except HostLost:
            shutil.rmtree(self.plan.folder, ignore_errors=True)  # some files may be incomplete

    def _place_of(self, name: str) -> Path:
        """Return where a file of the process goes; an empty name is that of its log."""
        path = (self.plan.folder / name).resolve() if name else self._log
        if name and not path.is_relative_to(self.plan.folder.resolve()):
            self._agent.lose(f"it sent a file {name!r}")
            raise HostLost(self._agent.lost)
        return path
