"""Progress of runs: a bar in JupyterLab, lines in the terminal.

A headless kernel cannot reach the terminal, so it appends its progress to the file that
`HORIZONT_PROGRESS` names, and the process that executes the notebook prints it.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from horizont.launchers.agent.files import remove_abandoned

PROGRESS_VARIABLE = "HORIZONT_PROGRESS"

#: Names of temporary folders, and of the file in them that passes the progress on; it is locked.
FOLDER_PREFIX, RELAY = "horizont-relay-", "progress"

POLL_INTERVAL_S = 0.3
LINE_WIDTH = 110


class Progress:
    """Progress of a number of items, with the remaining time; `unit` is an item, such as "run"."""

    def __init__(self, unit: str, total: int) -> None:
        # Imported here, because most processes that import this module show no bar.
        from tqdm.auto import tqdm

        self.unit = unit
        self.total = total
        self.done = 0
        self.executed = 0
        self.skipped = 0
        self._name = ""
        self._last_update = (0, 0.0)
        self._started_s = self._last_finish_s = time.monotonic()
        relay = os.environ.get(PROGRESS_VARIABLE)
        self._relay = Path(relay) if relay else None
        self._bar = tqdm(total=total, unit=unit, leave=False, disable=not is_interactive())

    def extend(self, count: int) -> None:
        """Add items that were not planned."""
        self.total += count
        self._bar.total = self.total

    def start(self, name: str) -> None:
        """Start an item."""
        self._name = name
        self._last_update = (0, time.monotonic())
        self._bar.set_description_str(name)
        self._write(f"{self._prefix(self.done + 1)} {name}")

    def message(self, text: str, *, permanent: bool = True) -> None:
        """Report a message about the current item; one that is not permanent is overwritten."""
        self._bar.set_postfix_str(text)
        self._write(f"{self._prefix(self.done + 1)} {self._name}: {text}", permanent=permanent)

    def update(self, done: int, planned: int) -> None:
        """Report the steps of the current item, with their rate since the last report."""
        now_s = time.monotonic()
        before, last_s = self._last_update
        self._last_update = (done, now_s)
        text = f"step {done}/{planned}"
        if done > before:
            text += f", {(done - before) / (now_s - last_s):.0f} steps/s"
        self.message(text, permanent=False)

    def finish(self, outcome: str, *, executed: bool = True, skipped: bool = False) -> None:
        """Finish the current item; one that was not executed does not affect the remaining time.

        One that is neither executed nor skipped was available before, and is not reported.
        """
        self.done += 1
        self.executed += executed
        self.skipped += skipped
        self._last_finish_s = time.monotonic()
        self._bar.set_postfix_str(outcome)
        self._bar.update()
        if executed or skipped or self.done == self.total:
            self._write(f"{self._prefix(self.done)} {self._name}: {outcome}")

    def close(self) -> None:
        """Report the totals, and print them below the cell of a notebook."""
        self._bar.close()
        spent = format_duration(time.monotonic() - self._started_s)
        available = self.done - self.executed - self.skipped
        plural = "" if self.executed == 1 else "es" if self.unit.endswith("s") else "s"
        text = f"{self.executed} {self.unit}{plural} executed in {spent}"
        text += f", {available} available before" if available else ""
        text += f", {self.skipped} skipped." if self.skipped else "."
        self._write(text)
        if _in_kernel():
            print(text)

    def _prefix(self, number: int) -> str:
        prefix = f"{self.unit} {number}/{self.total}"
        if not self.executed:
            return prefix
        each_s = (self._last_finish_s - self._started_s) / self.executed
        remaining_s = each_s * (self.total - self.done) - (time.monotonic() - self._last_finish_s)
        return f"{prefix} ({format_duration(max(0.0, remaining_s))} remaining)"

    def _write(self, text: str, *, permanent: bool = True) -> None:
        """Append a line to the relay; one that is not permanent may be overwritten."""
        if self._relay is not None:
            with self._relay.open("a", encoding="utf-8") as file:
                file.write(f"{'=' if permanent else '~'}{text}\n")


def _in_kernel() -> bool:
    """Whether this process is the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def is_interactive() -> bool:
    """Whether this is a notebook that is not executed headlessly."""
    return _in_kernel() and PROGRESS_VARIABLE not in os.environ


def format_duration(seconds: float) -> str:
    """Format a duration: `2 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextmanager
def forwarded_progress(out: TextIO | None = None) -> Iterator[Path]:
    """Print the progress of this process or of a kernel; yield a temporary folder with the relay.

    It is printed to standard error by default. Lines that may be overwritten are printed to a
    terminal only, and only the newest of them.
    """
    outer_relay = os.environ.get(PROGRESS_VARIABLE)
    remove_abandoned(Path(tempfile.gettempdir()), FOLDER_PREFIX, RELAY)
    with (
        tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as folder,
        Path(folder, f".{RELAY}").open("w", encoding="utf-8") as lock,
    ):
        relay = Path(folder, RELAY)
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.replace(lock.name, relay)  # it is never there without its lock
        os.environ[PROGRESS_VARIABLE] = str(relay)
        stop = threading.Event()
        arguments = (relay, out or sys.stderr, stop)
        printer = threading.Thread(target=_print_lines, args=arguments, daemon=True)
        printer.start()
        try:
            yield Path(folder)
        finally:
            stop.set()
            printer.join()
            os.environ.pop(PROGRESS_VARIABLE)
            if outer_relay is not None:
                os.environ[PROGRESS_VARIABLE] = outer_relay


def _print_lines(relay: Path, out: TextIO, stop: threading.Event) -> None:
    """Print the lines of a growing file."""
    clear = "\r\033[K" if out.isatty() else ""
    with relay.open(encoding="utf-8") as file:
        stopped = False
        while not stopped:
            stopped = stop.wait(POLL_INTERVAL_S)
            lines = file.read().splitlines()
            for number, line in enumerate(lines, start=1):
                if line.startswith("="):
                    out.write(f"{clear}  {line[1:]}\n")
                elif clear and number == len(lines):
                    out.write(f"{clear}  {line[1 : LINE_WIDTH + 1]}")
            out.flush()
    out.write(clear)
    out.flush()
