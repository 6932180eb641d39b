"""The last lines that processes have printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

#: The choice that shows the end of every log.
ALL = "all processes"

_BYTES = 8192
_LINES = 12


def tail(logs: Mapping[str, Path], name: str = ALL, lines: int = _LINES) -> str:
    """Read the last lines of a log, or of all of them, without reading what is before.

    Parameters
    ----------
    logs
        Files by the name of the process.
    lines
        How many lines in all.
    """
    chosen = {name: logs[name]} if name in logs else dict(logs)
    each = max(2, lines // max(1, len(chosen)))
    found = []
    for process, path in chosen.items():
        said = _last(path)[-(lines if len(chosen) == 1 else each) :]
        found += [line if len(chosen) == 1 else f"{process}: {line}" for line in said]
    return "\n".join(found) or "nothing printed"


def _last(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _BYTES))
            text = file.read(_BYTES).decode(errors="replace")
    except OSError:  # moved just now
        return []
    whole = text.splitlines()
    return whole[1:] if size > _BYTES else whole
