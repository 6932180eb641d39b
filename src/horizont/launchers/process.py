"""Processes on this machine: started as a session of their own, stopped with all descendants."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

import psutil

from horizont.config.interpreters import VISIBLE_DEVICES
from horizont.launchers.base import ProcessHandle
from horizont.launchers.plan import JOB_FILE, ProcessPlan
from horizont.monitoring.client import SamplerClient
from horizont.monitoring.process_control import defer_interrupts, parent_death_signal
from horizont.records.files import write_json

#: Seconds that processes get to end after SIGTERM.
TERMINATION_S = 2.0

#: Start of the last line of a traceback, of a message of the command line, or of a fatal error that
#: a library in C++ has logged before it aborted: ``F1123 08:55:07.998125    7657 client.h:80] ``.
ERROR_LINE = re.compile(r"(error|[\w.]*(Error|Exception|Interrupt)): |F\d{4} [\d:.]+ +\d+ \S+\] ")


#: With less, a disk counts as full if a process could not write why it failed.
_LEAST_FREE_BYTES = 2**16


class ProcessGroup(ProcessHandle):
    """A process on this machine, the leader of a session and process group of its own.

    The start of its command line, `prefix`, runs the rest on its host; it must ``exec``, so that
    the process ID stays. What it prints goes to the file `log`.
    """

    def __init__(self, plan: ProcessPlan, log: Path, prefix: tuple[str, ...] = ()) -> None:
        self.plan = plan
        self.log = log
        plan.folder.mkdir(parents=True, exist_ok=True)
        if plan.job is not None:
            write_json(plan.folder / JOB_FILE, plan.job.model_dump(mode="json"))
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*prefix, *plan.argv],
                cwd=plan.folder,
                env={**os.environ, **plan.environment, "HORIZONT_PARENT_PID": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # It takes no lock, so it is safe in a launcher with threads.
                preexec_fn=parent_death_signal(signal.SIGKILL),  # noqa: PLW1509
            )
        self._pidfd = os.pidfd_open(self.process.pid)

    @property
    def details(self) -> Mapping[str, Any]:
        """The process ID."""
        return {"pid": self.process.pid}

    @property
    def exit_status(self) -> int | None:
        """Exit status of the leader, or minus its signal; None before `reap`."""
        return self.process.returncode

    def fileno(self) -> int:
        """Return the pidfd, which becomes readable when the leader has ended."""
        return self._pidfd

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, if any of its processes is left."""
        # After the leader is reaped, another process may have its ID.
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def reap(self) -> int:
        """Stop all processes of the group at once and return the exit status of the leader.

        The group is killed before the leader is reaped: until then no other process can get its
        ID.
        """
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            os.close(self._pidfd)
        return self.process.returncode

    def is_stopped(self) -> bool:
        """Whether the leader is stopped by a signal."""
        try:
            return bool(psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def cpu_time_s(self) -> float | None:
        """Return the CPU time of the leader; None after it was reaped."""
        if self.process.returncode is not None:
            return None
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return None
        return float(times.user + times.system)

    def last_error(self) -> str:
        """Return the last line with an error in the log, or its last line.

        A full disk is named with the folder; the log may be empty then.
        """
        text = self.log.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        lines = [re.sub(r"^\[rank\d+\]: ", "", line) for line in lines]  # a prefix of PyTorch
        errors = [line for line in lines if ERROR_LINE.match(line)]
        error = (errors or lines or [""])[-1]
        full = os.strerror(errno.ENOSPC)
        if full in error or (not error and _free_bytes(self.log) < _LEAST_FREE_BYTES):
            # The folder of an incomplete record is hidden, and gets another name.
            hidden = (one for one in self.log.parents if one.name.startswith("."))
            error = f"{error or full} in {next(hidden, self.log).parent}"
        return error

    def attach_sampler(self, sampler: SamplerClient) -> None:
        """Sample the process and its descendants, and its GPU if it has one."""
        sampler.add_root(self.process.pid, self.name)
        if device := self.plan.environment.get(VISIBLE_DEVICES):
            sampler.add_device(self.name, device)


def _free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


@contextlib.contextmanager
def terminating(handles: Sequence[ProcessHandle]) -> Iterator[None]:
    """Terminate all processes at the end of the context, however it ends; kill those that stay."""
    try:
        yield
    finally:
        # A second Ctrl-C must not interrupt this.
        with defer_interrupts():
            running = waiting = [handle for handle in handles if handle.exit_status is None]
            for handle in running:
                handle.signal(signal.SIGTERM)
                handle.signal(signal.SIGCONT)  # a stopped process would not receive it
            deadline_s = time.monotonic() + TERMINATION_S
            while waiting and (left_s := deadline_s - time.monotonic()) > 0:
                ended = wait_for_exit(waiting, left_s)
                waiting = [handle for handle in waiting if handle not in ended]
            for handle in running:
                handle.reap()


def wait_for_exit(handles: Sequence[ProcessHandle], timeout_s: float) -> list[ProcessHandle]:
    """Wait until any process has ended or the time is up; return those that have ended."""
    return connection.wait(handles, timeout_s)  # type: ignore[arg-type, return-value]
