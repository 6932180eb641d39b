"""The clocks of the hosts: how far each is from the launcher's, and a record on one axis."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from horizont.launchers.plan import EVENTS_FILE
from horizont.records.files import read_events, read_table, write_table

#: Exchanges of which the fastest counts.
EXCHANGES = 20

#: Two measurements of an offset that differ by more than this and their errors mark a run.
MAX_DRIFT_S = 1e-3

#: Columns with times of the monotonic clock, by file.
TIME_COLUMNS = {
    "steps.parquet": ("start_s", "gradients_ready_s"),
    "evaluation.parquet": ("time_s",),
    "samples.parquet": ("time_s",),
}


@dataclass(frozen=True)
class ClockOffset:
    """How far a host's clocks are behind the launcher's, in seconds.

    Attributes
    ----------
    monotonic_s, unix_s
        To be added to times of the host's monotonic clock and of its wall clock.
    error_s
        The offset is known to this: half of the fastest exchange.
    """

    monotonic_s: float
    unix_s: float
    error_s: float


def measure_offset(read_remote: Callable[[], tuple[float, float]]) -> ClockOffset:
    """Measure the offset of a host whose monotonic and wall clock are read by a round trip.

    The host reads its clocks at some time between the request and the reply: in the middle, up to
    half of the round trip earlier or later (the estimate of NTP). The fastest exchange counts.
    """
    best: ClockOffset | None = None
    for _ in range(EXCHANGES):
        start_s, unix_s = time.monotonic(), time.time()
        remote_s, remote_unix_s = read_remote()
        error_s = (time.monotonic() - start_s) / 2
        if best is None or error_s < best.error_s:
            best = ClockOffset(
                start_s + error_s - remote_s, unix_s + error_s - remote_unix_s, error_s
            )
    assert best is not None
    return best


def drift_s(first: ClockOffset, last: ClockOffset) -> float:
    """Return by how much two measurements differ beyond their errors."""
    difference_s = abs(last.monotonic_s - first.monotonic_s)
    return max(0.0, difference_s - first.error_s - last.error_s)


def shift_times(folder: Path, offset: ClockOffset, by_worker_s: dict[int, float]) -> None:
    """Move all times in the files of a process from the clock of its host to the launcher's.

    Parameters
    ----------
    by_worker_s
        What has to be added to the steps of other hosts' workers in the table of a coordinator,
        which has read their wall clocks as if they were its own.
    """
    for name, columns in TIME_COLUMNS.items():
        path = folder / name
        if path.exists():
            table = shift_columns(read_table(path), columns, offset.monotonic_s)
            if name == "steps.parquet" and by_worker_s:
                extra_s = [by_worker_s.get(worker, 0.0) for worker in table["worker"].to_pylist()]
                table = shift_columns(table, ("start_s",), pa.array(extra_s))
            write_table(path, table)
    if (folder / EVENTS_FILE).exists():
        events = [shift_event(event, offset) for event in read_events(folder / EVENTS_FILE)]
        text = "".join(json.dumps(event) + "\n" for event in events)
        (folder / EVENTS_FILE).write_text(text, encoding="utf-8")


def shift_columns(
    table: pa.Table, columns: tuple[str, ...], offset_s: float | pa.Array
) -> pa.Table:
    """Add seconds to columns of a table: the same to all rows, or a number for each."""
    for column in columns:
        index = table.column_names.index(column)
        table = table.set_column(index, column, pc.add(table[column], offset_s))
    return table


def shift_event(event: dict[str, object], offset: ClockOffset) -> dict[str, object]:
    """Return an event with its times on the clocks of the launcher."""
    shifted = {"time_s": offset.monotonic_s, "time_unix_s": offset.unix_s}
    return {
        key: value + shifted[key] if key in shifted and isinstance(value, float) else value
        for key, value in event.items()
    }
