"""The table of samples: its columns, and its way to the disk in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from horizont.monitoring.processes import ProcessReading

FORMAT = 1


class Head(NamedTuple):
    """What all rows of a sample share; see `Row`."""

    sample: int
    time_s: float
    late_s: float
    host: str


class Row(NamedTuple):
    """One row of the table. What was not measured is None (null in the file), never zero.

    Attributes
    ----------
    sample
        Number of the tick; missed ticks leave gaps. All rows of a sample share it.
    time_s
        When the sample was begun, on the monotonic clock of the run, in seconds.
    late_s
        How long after it was due that was, in seconds.
    host
        The name of the host in the study.
    scope
        What the row is about: ``process``, ``host``, ``interface`` or ``sampler`` (the
        sampler's own process, so that its cost is on record and never mixed with the run's).
    name
        The role (``worker-0``) of a process, the host, or the network interface.
    pid
        Number of the process.
    cpu_s
        Processor seconds since the process or the host started; of a host summed over its
        processors.
    rss_bytes
        Resident memory of a process.
    threads
        Threads of a process.
    read_bytes, write_bytes
        Disk bytes since the process or the host started; at each scan only.
    sent_bytes, received_bytes
        Network bytes since the interface came up; of a host summed over the counted interfaces,
        the loopback one included if it is counted.
    processes
        Processes on the host, at each scan only.
    runnable
        Threads on the host that run or wait for a processor.
    memory_used_bytes, memory_available_bytes
        Memory of the host.
    load_1min
        Load average of the host over a minute.
    iowait_s, steal_s
        Processor seconds of the host idle with a disk request open, and taken by a hypervisor.
    missed
        Ticks left out just before this one; host rows only.
    """

    sample: int
    time_s: float
    late_s: float
    host: str
    scope: str
    name: str
    pid: int | None = None
    cpu_s: float | None = None
    rss_bytes: int | None = None
    threads: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None
    processes: int | None = None
    runnable: int | None = None
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
    load_1min: float | None = None
    iowait_s: float | None = None
    steal_s: float | None = None
    missed: int | None = None


def process_row(head: Head, scope: str, name: str, pid: int, reading: ProcessReading) -> Row:
    """Return the row of one process."""
    return Row(
        *head,
        scope,
        name,
        pid,
        reading.cpu_s,
        reading.rss_bytes,
        reading.threads,
        reading.read_bytes,
        reading.write_bytes,
    )


def _type_of(column: str) -> pa.DataType:
    if column in ("host", "scope", "name"):
        return pa.string()
    return pa.float64() if column.endswith("_s") or column == "load_1min" else pa.int64()


SCHEMA = pa.schema(
    [(column, _type_of(column)) for column in Row._fields],
    metadata={"horizont.samples.format": str(FORMAT)},
)


class Spill:
    """Rows collected in memory and appended to an Arrow stream in batches.

    A stream can be read as far as it goes at any time, unlike Parquet, which is nothing before
    its last byte: a killed sampler loses one batch, and a live view reads what is there.

    Parameters
    ----------
    path
        The stream, made anew by the first `flush`: until then there is no file.
    """

    def __init__(self, path: Path) -> None:
        self.rows: list[Row] = []
        self._path = path
        self._files: tuple[pa.NativeFile, pa.RecordBatchWriter] | None = None

    def flush(self) -> None:
        """Append the collected rows to the stream."""
        _, writer = self._open()
        if self.rows:
            columns = zip(*self.rows, strict=True)
            arrays = [pa.array(c, kind) for c, kind in zip(columns, SCHEMA.types, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
            self.rows.clear()

    def close(self) -> None:
        """Append the rest and end the stream."""
        self.flush()
        sink, writer = self._open()
        writer.close()
        sink.close()

    def _open(self) -> tuple[pa.NativeFile, pa.RecordBatchWriter]:
        if self._files is None:
            sink = pa.OSFile(str(self._path), "wb")
            self._files = (sink, pa.ipc.new_stream(sink, SCHEMA))
        return self._files


def read_spill(path: Path) -> pa.Table:
    """Read the whole batches of a stream that may be unfinished or cut short.

    Raises
    ------
    FileNotFoundError
        If there is no stream.
    """
    batches = []
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            for batch in stream:
                batches.append(batch)
    except (pa.ArrowInvalid, pa.ArrowIOError) as error:
        if isinstance(error, FileNotFoundError):
            raise
    return pa.Table.from_batches(batches, schema=SCHEMA)
