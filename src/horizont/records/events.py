"""The diary of a run: one JSON line an event."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from horizont.errors import UserError


def append_event(path: Path, event: str, **details: Any) -> None:
    """Add an event with wall-clock and monotonic time; a line is one write, so it is whole.

    Raises
    ------
    UserError
        If the folder is full, or was removed.
    """
    line = {"event": event, "time_unix_s": time.time(), "time_s": time.monotonic(), **details}
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise UserError("results folder", str(path.parent), allowed) from None


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read all events; a last line that was cut short by a crash is passed over."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events
