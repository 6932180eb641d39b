"""Progress for whoever watches: a person in JupyterLab, a terminal above a headless notebook.

A headless notebook cannot reach the terminal, so it appends what it is doing to the file that
`HORIZONT_PROGRESS` names, and the runner shows it from there.
"""

from __future__ import annotations

import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

PROGRESS_VARIABLE = "HORIZONT_PROGRESS"

#: Shows a line, as plain text and as HTML.
DisplayLine = Callable[[str, str], None]

#: Where notebooks show progress, if not below the cell that runs.
_display_override: ContextVar[DisplayLine | None] = ContextVar("place", default=None)


class Progress:
    """A counter of pieces of work, with the rate and the time left.

    Parameters
    ----------
    what
        What is being counted, in the singular: "run", "comparison".
    total
        How many of them there are.
    """

    def __init__(self, unit: str, total: int) -> None:
        self.unit = unit
        self.total = total
        self.done = 0
        self.executed = 0
        self._name = ""
        self._last_update = (0, 0.0)
        self._current_fraction = 0.0
        self.started_s = self._last_finish_s = time.monotonic()
        self._sinks = [sink for sink in (_FileSink.open(), _NotebookSink.open()) if sink]

    def start(self, name: str) -> None:
        """Say which piece has begun."""
        self._name = name
        self._current_fraction = 0.0
        self._last_update = (0, time.monotonic())
        self._write(f"{self._prefix()} {name}", permanent=True)

    def message(self, text: str) -> None:
        """Say something about the piece that has begun."""
        self._write(f"{self._prefix()} {self._name}: {text}", permanent=True)

    def update(self, done: int, planned: int) -> None:
        """Say how far the piece has come, with the step rate since this was last said."""
        now_s = time.monotonic()
        before, said_s = self._last_update
        self._last_update = (done, now_s)
        self._current_fraction = done / planned if planned else 0.0
        text = f"{self._prefix()} {self._name}: step {done}/{planned}"
        if done > before:
            text += f", {(done - before) / (now_s - said_s):.0f} steps/s"
        self._write(text)

    def finish(self, outcome: str, *, executed: bool = True) -> None:
        """Say how the piece went. Work that was found done counts for no estimate."""
        self.done += 1
        self._current_fraction = 0.0
        self._last_finish_s = time.monotonic()
        self.executed += executed
        if executed or self.done == self.total:
            self._write(f"{self._prefix(finished=True)} {self._name}: {outcome}", permanent=True)

    def close(self) -> None:
        """Leave a last line in the notebook."""
        spent = time.monotonic() - self.started_s
        reused = self.done - self.executed
        found = f", {reused} found finished" if reused else ""
        for sink in self._sinks:
            sink.close(
                f"{_pluralise(self.executed, self.unit)} done in {_format_duration(spent)}{found}."
            )

    def _prefix(self, *, finished: bool = False) -> str:
        number = self.done if finished else self.done + 1
        return f"{self.unit} {number}/{self.total}{self._remaining_time()}"

    def _remaining_time(self) -> str:
        if not self.executed:
            return ""
        each_s = (self._last_finish_s - self.started_s) / self.executed
        left_s = each_s * (self.total - self.done) - (time.monotonic() - self._last_finish_s)
        return f" ({_format_duration(max(0.0, left_s))} left)"

    def _write(self, text: str, *, permanent: bool = False) -> None:
        for sink in self._sinks:
            sink.write(text, self.fraction, permanent=permanent)

    @property
    def fraction(self) -> float:
        """How much of the work is done, from 0 to 1, as if all pieces were equal."""
        return min(1.0, (self.done + self._current_fraction) / self.total) if self.total else 1.0


class _FileSink:
    """Lines for the runner: `=` stands for good, `~` may be written over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls) -> _FileSink | None:
        named = os.environ.get(PROGRESS_VARIABLE)
        return cls(Path(named)) if named else None

    def write(self, text: str, fraction: float, *, permanent: bool) -> None:
        del fraction
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{'=' if permanent else '~'}{text}\n")

    def close(self, text: str) -> None:
        self.write(text, 1.0, permanent=True)


class _NotebookSink:
    """A bar with a line beside it, rewritten in place; in the end the line alone."""

    def __init__(self, display_line: DisplayLine) -> None:
        self.display_line = display_line

    @classmethod
    def open(cls) -> _NotebookSink | None:
        from IPython import get_ipython

        shell = get_ipython()
        if getattr(shell, "kernel", None) is None:
            return None
        return cls(_display_override.get() or _cell_display())

    def write(self, text: str, fraction: float, *, permanent: bool) -> None:
        del permanent
        bar = f'<progress max="1" value="{fraction:.3f}"></progress> {html.escape(text)}'
        self.display_line(text, bar)

    def close(self, text: str) -> None:
        self.display_line(text, f"<p>{html.escape(text)}</p>")


def _cell_display() -> DisplayLine:
    """Make a place among the outputs of the cell that runs."""
    from IPython.display import display

    empty = {"text/plain": ""}
    handle = display(empty, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(plain: str, page: str) -> None:
        handle.update({"text/html": page, "text/plain": plain}, raw=True)

    return show


@contextmanager
def displayed_with(display_line: DisplayLine) -> Iterator[None]:
    """Have notebooks show progress in another place than below the cell.

    What a control's callback displays appears once it is done, and is not rewritten.
    """
    token = _display_override.set(display_line)
    try:
        yield
    finally:
        _display_override.reset(token)


def _pluralise(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


POLL_INTERVAL_S = 0.3
LINE_WIDTH = 110


@contextmanager
def echoed_progress(progress_file: Path, out: TextIO | None = None) -> Iterator[None]:
    """Show the lines of a growing file on `out` (standard error, if not said) meanwhile.

    Lines that may be written over appear on a terminal only, and only the newest of them.
    """
    over = threading.Event()
    shown = threading.Thread(
        target=_echo_lines, args=(progress_file, out or sys.stderr, over), daemon=True
    )
    shown.start()
    try:
        yield
    finally:
        over.set()
        shown.join()


def _echo_lines(progress_file: Path, out: TextIO, stop: threading.Event) -> None:
    with progress_file.open(encoding="utf-8") as file:
        while True:
            last = stop.wait(POLL_INTERVAL_S)
            lines = file.read().splitlines()
            _print_lines(lines, out)
            if last:
                if out.isatty():
                    out.write("\r\033[K")
                out.flush()
                return


def _print_lines(lines: list[str], out: TextIO) -> None:
    terminal = out.isatty()
    for number, line in enumerate(lines):
        text = line[1:]
        if line.startswith("="):
            out.write(f"\r\033[K  {text}\n" if terminal else f"  {text}\n")
        elif terminal and number == len(lines) - 1:
            out.write(f"\r\033[K  {text[:LINE_WIDTH]}")
    out.flush()
