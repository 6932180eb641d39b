"""Progress for whoever watches: a person in JupyterLab, a terminal above a headless notebook.

A headless notebook cannot reach the terminal, so it appends what it is doing to the file that
`HORIZONT_PROGRESS` names, and the runner shows it from there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

VARIABLE = "HORIZONT_PROGRESS"


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
        self.started_s = time.monotonic()
        self._sinks = [sink for sink in (_FileSink.open(), _NotebookSink.open()) if sink]

    def begin(self, name: str) -> None:
        """Say which piece has begun."""
        self._name = name
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
        text = f"{self._head()} {self._name}: step {done}/{planned}"
        if done > before:
            text += f", {(done - before) / (now_s - said_s):.0f} steps/s"
        self._tell(text)

    def end(self, outcome: str, *, counted: bool = True) -> None:
        """Say how the piece went. Work that was found done counts for no estimate."""
        self.done += 1
        self.measured += counted
        if counted or self.done == self.total:
            self._tell(f"{self._head(ended=True)} {self._name}: {outcome}", whole=True)

    def close(self) -> None:
        """Leave a last line in the notebook."""
        spent = time.monotonic() - self.started_s
        reused = self.done - self.measured
        found = f", {reused} found finished" if reused else ""
        what = self.what if self.measured == 1 else f"{self.what}s"
        for sink in self._sinks:
            sink.close(f"{self.measured} {what} done in {_clock(spent)}{found}.")

    def _head(self, *, ended: bool = False) -> str:
        number = self.done if ended else self.done + 1
        return f"{self.what} {number}/{self.total}{self._left()}"

    def _left(self) -> str:
        if not self.measured:
            return ""
        each = (time.monotonic() - self.started_s) / self.measured
        return f" ({_clock(each * (self.total - self.done))} left)"

    def _tell(self, text: str, *, whole: bool = False) -> None:
        for sink in self._sinks:
            sink.tell(text, whole=whole)


class _FileSink:
    """Lines for the runner: `=` stands for good, `~` may be written over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls) -> _FileSink | None:
        named = os.environ.get(VARIABLE)
        return cls(Path(named)) if named else None

    def tell(self, text: str, *, whole: bool) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{'=' if whole else '~'}{text}\n")

    def close(self, text: str) -> None:
        self.tell(text, whole=True)


class _NotebookSink:
    """One line of output that is rewritten in place."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    @classmethod
    def open(cls) -> _NotebookSink | None:
        from IPython import get_ipython
        from IPython.display import Markdown, display

        shell = get_ipython()
        if getattr(shell, "kernel", None) is None:
            return None

        return cls(display(Markdown(""), display_id=True))  # type: ignore[no-untyped-call]

    def tell(self, text: str, *, whole: bool) -> None:
        del whole
        from IPython.display import Markdown

        self.handle.update(Markdown(text))  # type: ignore[no-untyped-call]

    def close(self, text: str) -> None:
        self.tell(text, whole=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
