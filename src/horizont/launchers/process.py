"""A process with its whole group: started apart, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from horizont.launchers.plan import JOB_FILE, ProcessPlan
from horizont.monitoring.process_control import defer_interrupts, parent_death_signal
from horizont.records.files import write_json

#: How the last line of a traceback, or our own message, begins.
ERROR_LINE = re.compile(r"(error|[\w.]*(Error|Exception|Interrupt)): ")


class ProcessGroup:
    """A started process, the leader of a group of its own.

    Parameters
    ----------
    prefix
        Words in front of its command that bring it to its host.

    Attributes
    ----------
    pidfd
        A file descriptor that becomes readable when the leader has ended.
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
                # Takes no lock, so threads of the launcher do not matter.
                preexec_fn=parent_death_signal(signal.SIGKILL),  # noqa: PLW1509
            )
        self.pidfd = os.pidfd_open(self.process.pid)

    @property
    def name(self) -> str:
        """The name of the planned process."""
        return self.plan.name

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, if anyone of it is left."""
        # A number that was collected may belong to somebody else by now.
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def reap(self) -> int:
        """Collect the exit status of a leader that has ended, and end what it left behind.

        The group is killed before the leader is collected: as long as it is not, its number
        cannot pass to another process.
        """
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            os.close(self.pidfd)
        return self.process.returncode

    def last_error(self) -> str:
        """Tell in a line why the process ended: the last error it printed, or its last line."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        lines = [re.sub(r"^\[rank\d+\]: ", "", line) for line in lines]  # PyTorch's addition
        errors = [line for line in lines if ERROR_LINE.match(line)]
        return (errors or lines or [""])[-1]


@contextlib.contextmanager
def terminating(groups: list[ProcessGroup]) -> Iterator[None]:
    """Leave no process of `groups` behind, however the block ends."""
    try:
        yield
    finally:
        # A second Ctrl-C must not cut the cleaning short.
        with defer_interrupts():
            terminate_all(groups)


def terminate_all(groups: list[ProcessGroup], grace_s: float = 2.0) -> None:
    """Ask all groups to end, wait, and kill what is left."""
    alive = [group for group in groups if group.process.returncode is None]
    for group in alive:
        group.signal(signal.SIGTERM)
        group.signal(signal.SIGCONT)  # one that is stopped would not hear of it
    wait_for(alive, grace_s)
    for group in alive:
        group.reap()


def wait_for(
    groups: list[ProcessGroup], timeout_s: float, count: int | None = None
) -> list[ProcessGroup]:
    """Wait until `enough` leaders (all of them, if not said) have ended or the time is up.

    Returns
    -------
    list
        Those that have ended.
    """
    wanted = len(groups) if count is None else min(count, len(groups))
    ended: list[ProcessGroup] = []
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for group in groups:
            selector.register(group.pidfd, selectors.EVENT_READ, group)
        while len(ended) < wanted and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                selector.unregister(key.fd)
                ended.append(key.data)
    return ended
