"""Progress for whoever watches: a person in JupyterLab, a terminal above a headless notebook.

A headless notebook cannot reach the terminal, so it appends what it is doing to the file that
`HORIZONT_PROGRESS` names, and the runner shows it from there.
"""

from __future__ import annotations

import html
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

VARIABLE = "HORIZONT_PROGRESS"

#: Shows a line, as plain text and as HTML.
Show = Callable[[str, str], None]

#: Where notebooks show progress, if not below the cell that runs.
_place: ContextVar[Show | None] = ContextVar("place", default=None)


class Progress:
    """A counter of pieces of work, with the rate and the time left.

    Parameters
    ----------
    what
        What is being counted, in the singular: "run", "comparison".
    total
        How many of them there are.
    """

    def __init__(self, what: str, total: int) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.measured = 0
        self._name = ""
        self._said = (0, 0.0)
        self._part = 0.0
        self.started_s = self._ended_s = time.monotonic()
        self._sinks = [sink for sink in (_FileSink.open(), _NotebookSink.open()) if sink]

    def begin(self, name: str) -> None:
        """Say which piece has begun."""
        self._name = name
        self._part = 0.0
        self._said = (0, time.monotonic())
        self._tell(f"{self._head()} {name}", whole=True)

    def remark(self, text: str) -> None:
        """Say something about the piece that has begun."""
        self._tell(f"{self._head()} {self._name}: {text}", whole=True)

    def step(self, done: int, planned: int) -> None:
        """Say how far the piece has come, with the step rate since this was last said."""
        now_s = time.monotonic()
        before, said_s = self._said
        self._said = (done, now_s)
        self._part = done / planned if planned else 0.0
        text = f"{self._head()} {self._name}: step {done}/{planned}"
        if done > before:
            text += f", {(done - before) / (now_s - said_s):.0f} steps/s"
        self._tell(text)

    def end(self, outcome: str, *, counted: bool = True) -> None:
        """Say how the piece went. Work that was found done counts for no estimate."""
        self.done += 1
        self._part = 0.0
        self._ended_s = time.monotonic()
        self.measured += counted
        if counted or self.done == self.total:
            self._tell(f"{self._head(ended=True)} {self._name}: {outcome}", whole=True)

    def close(self) -> None:
        """Leave a last line in the notebook."""
        spent = time.monotonic() - self.started_s
        reused = self.done - self.measured
        found = f", {reused} found finished" if reused else ""
        for sink in self._sinks:
            sink.close(f"{_counted(self.measured, self.what)} done in {_clock(spent)}{found}.")

    def _head(self, *, ended: bool = False) -> str:
        number = self.done if ended else self.done + 1
        return f"{self.what} {number}/{self.total}{self._left()}"

    def _left(self) -> str:
        if not self.measured:
            return ""
        each_s = (self._ended_s - self.started_s) / self.measured
        left_s = each_s * (self.total - self.done) - (time.monotonic() - self._ended_s)
        return f" ({_clock(max(0.0, left_s))} left)"

    def _tell(self, text: str, *, whole: bool = False) -> None:
        for sink in self._sinks:
            sink.tell(text, self.share, whole=whole)

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1, as if all pieces were equal."""
        return min(1.0, (self.done + self._part) / self.total) if self.total else 1.0


class _FileSink:
    """Lines for the runner: `=` stands for good, `~` may be written over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls) -> _FileSink | None:
        named = os.environ.get(VARIABLE)
        return cls(Path(named)) if named else None

    def tell(self, text: str, share: float, *, whole: bool) -> None:
        del share
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{'=' if whole else '~'}{text}\n")

    def close(self, text: str) -> None:
        self.tell(text, 1.0, whole=True)


class _NotebookSink:
    """A bar with a line beside it, rewritten in place; in the end the line alone."""

    def __init__(self, show: Show) -> None:
        self.show = show

    @classmethod
    def open(cls) -> _NotebookSink | None:
        from IPython import get_ipython

        shell = get_ipython()
        if getattr(shell, "kernel", None) is None:
            return None
        return cls(_place.get() or _below_the_cell())

    def tell(self, text: str, share: float, *, whole: bool) -> None:
        del whole
        bar = f'<progress max="1" value="{share:.3f}"></progress> {html.escape(text)}'
        self.show(text, bar)

    def close(self, text: str) -> None:
        self.show(text, f"<p>{html.escape(text)}</p>")


def _below_the_cell() -> Show:
    """Make a place among the outputs of the cell that runs."""
    from IPython.display import display

    empty = {"text/plain": ""}
    handle = display(empty, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(plain: str, page: str) -> None:
        handle.update({"text/html": page, "text/plain": plain}, raw=True)

    return show


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Have notebooks show progress in another place than below the cell.

    What a control's callback displays appears once it is done, and is not rewritten.
    """
    token = _place.set(show)
    try:
        yield
    finally:
        _place.reset(token)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
