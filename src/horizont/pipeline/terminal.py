"""What a headless notebook says it is doing, shown in the terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

LOOK_S = 0.3
WIDTH = 110


@contextmanager
def following(spoken: Path, out: TextIO | None = None) -> Iterator[None]:
    """Show the lines of a growing file on `out` (standard error, if not said) meanwhile.

    Lines that may be written over appear on a terminal only, and only the newest of them.
    """
    over = threading.Event()
    shown = threading.Thread(target=_follow, args=(spoken, out or sys.stderr, over), daemon=True)
    shown.start()
    try:
        yield
    finally:
        over.set()
        shown.join()


def _follow(spoken: Path, out: TextIO, over: threading.Event) -> None:
    with spoken.open(encoding="utf-8") as file:
        while True:
            last = over.wait(LOOK_S)
            lines = file.read().splitlines()
            _show(lines, out)
            if last:
                if out.isatty():
                    out.write("\r\033[K")
                out.flush()
                return


def _show(lines: list[str], out: TextIO) -> None:
    terminal = out.isatty()
    for number, line in enumerate(lines):
        text = line[1:]
        if line.startswith("="):
            out.write(f"\r\033[K  {text}\n" if terminal else f"  {text}\n")
        elif terminal and number == len(lines) - 1:
            out.write(f"\r\033[K  {text[:WIDTH]}")
    out.flush()
