"""Files of a record: JSON, Parquet and the event log, written atomically.

Functions that write raise `UserError` if the folder is full, missing or read-only; functions that
read one file, if it is missing or damaged.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from horizont.errors import Problem, UserError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a temporary file beside `path` and rename it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(
            str(path), Problem(error.strerror), "a writable folder with free space"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, values: Any) -> None:
    """Write `values` as indented JSON with sorted keys."""
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(str(path), Problem("missing"), "a file of a complete record") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(str(path), Problem(str(error)), "valid JSON") from None


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet."""
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name to an uncompressed ``.npz`` file."""
    np.savez(path, **arrays)


def read_table(path: Path) -> pa.Table:
    """Read a Parquet table."""
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise UserError(str(path), Problem("missing"), "a file of a complete record") from None
    except (pa.ArrowInvalid, OSError) as error:  # a damaged footer is an OSError
        raise UserError(
            str(path), Problem(str(error).splitlines()[0]), "a valid Parquet file"
        ) from None


def append_event(path: Path, event: str, **details: Any) -> None:
    """Write an event with wall-clock and monotonic time to the end of an event log.

    A line is a single write, so that several processes can append to one log.
    """
    line = {"event": event, "time_unix_s": time.time(), "time_s": time.monotonic(), **details}
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    except OSError as error:
        allowed = f"a writable folder ({error.strerror})"
        raise UserError("results folder", str(path.parent), allowed) from None


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read all events of a log; lines truncated by a crash are skipped."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events
