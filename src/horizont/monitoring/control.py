"""How the launcher talks to the sampler: lines appended to a file.

A file, because it needs no connection, outlives both ends, crosses network namespaces and
shared folders, lets the sampler start before the first worker, and can be read by whoever looks
into a failed run. Looking for news costs one system call a sample.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_PIECE_BYTES = 1 << 14  # small: the room is claimed anew at each look


class ControlWriter:
    """The launcher's end. It keeps working, to no effect, when the folder is removed.

    Parameters
    ----------
    path
        The file, made anew.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)

    def add_root(self, pid: int, name: str) -> None:
        """Ask for a process and its descendants to be followed."""
        self._send({"root": pid, "name": name})

    def add_host(self, name: str, counters: Path) -> None:
        """Ask for the interfaces of another host to be counted, by its `/proc/PID/net/dev`."""
        self._send({"host": name, "counters": str(counters)})

    def stop(self) -> None:
        """Ask the sampler to stop, where no signal reaches it."""
        self._send({"stop": True})

    def _send(self, message: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(message) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class ControlReader:
    """The sampler's end.

    Parameters
    ----------
    path
        The file, which must exist.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """Return the messages since the last call; half a line waits for its other half."""
        content = os.read(self._file, _PIECE_BYTES)
        if not content:
            return []
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [json.loads(line) for line in lines if line]
