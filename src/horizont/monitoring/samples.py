"""The table of samples: schema, Arrow stream while sampling, Parquet at the end, rates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from horizont.errors import UserError
from horizont.records.files import read_table, write_json, write_table

if TYPE_CHECKING:  # the sampler starts without pandas
    import pandas as pd

FORMAT = 1


class Sample(NamedTuple):
    """One row of the table. What was not measured is None (null in the file), never zero.

    Attributes
    ----------
    sample
        Number of the deadline. All rows of one deadline share it; missed deadlines leave gaps.
    time_s
        Time of the sample on the monotonic clock that all processes share, in seconds.
    late_s
        Delay of the sample against its deadline, in seconds.
    host
        Name of the host in the study.
    scope
        ``process``, ``host``, ``interface``, ``device`` (a GPU), or ``sampler`` (the sampler's own
        process, so that its cost is recorded apart from that of the run).
    name
        Role of a process (``worker-0``), the process that a GPU belongs to, the host, or the
        network interface.
    pid
        Process ID.
    cpu_s
        CPU time since the process or the host started, in seconds; of a host summed over CPUs.
    rss_bytes
        Resident memory of a process; shared pages count in each process that maps them.
    threads
        Threads of a process; read at each process scan only.
    read_bytes, write_bytes
        Disk I/O since the process or the host started; read at each process scan only.
    sent_bytes, received_bytes
        Network I/O since the interface came up; of a host summed over the sampled interfaces,
        loopback included if it is sampled.
    processes
        Processes on the host; counted at each process scan only.
    runnable
        Threads on the host that run or wait for a CPU.
    memory_used_bytes, memory_available_bytes
        Memory of the host.
    load_1min
        Load average of the host over one minute.
    iowait_s, steal_s
        CPU time of the host idle with outstanding disk I/O, and taken by a hypervisor.
    missed
        Deadlines skipped immediately before this sample; host rows only.
    device_memory_bytes
        Memory of a GPU in use, by all processes. This column and the next are part of the table of
        a run on a GPU only.
    device_busy
        Fraction of the time in which a kernel ran on a GPU, over NVML's last period, which lasts
        between a sixth of a second and a second.
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
    device_memory_bytes: int | None = None
    device_busy: float | None = None


#: Columns of a run on a GPU, the last ones of a sample.
DEVICE_COLUMNS = ("device_memory_bytes", "device_busy")


def _column_type(column: str) -> pa.DataType:
    if column in ("host", "scope", "name"):
        return pa.string()
    is_float = column.endswith("_s") or column in ("load_1min", "device_busy")
    return pa.float64() if is_float else pa.int64()


DEVICE_SCHEMA = pa.schema(
    [(column, _column_type(column)) for column in Sample._fields],
    metadata={"horizont.samples.format": str(FORMAT)},
)

SCHEMA = pa.schema(
    [field for field in DEVICE_SCHEMA if field.name not in DEVICE_COLUMNS], DEVICE_SCHEMA.metadata
)


class SampleFiles:
    """Paths of the sampler's files in a folder.

    Attributes
    ----------
    table
        The finished table.
    report
        Missed deadlines, lateness, processes and why sampling ended.
    stream
        The table while sampling; it exists once the first sample has been taken.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "samples.parquet"
        self.report = folder / "samples.json"
        self.stream = folder / ".samples.arrows"


class SampleStream:
    """Rows buffered in memory and appended to an Arrow stream in batches.

    Unlike Parquet, which is unreadable without its last byte, a stream can be read up to its last
    whole batch at any time: a killed sampler loses one batch, and a running one can be watched.
    The file is created by the first `flush`. A run on a GPU has the `DEVICE_SCHEMA`.
    """

    def __init__(self, path: Path, schema: pa.Schema = SCHEMA) -> None:
        self.rows: list[Sample] = []
        self._path = path
        self._schema = schema

    @cached_property
    def _writer(self) -> pa.RecordBatchWriter:
        return pa.ipc.new_stream(str(self._path), self._schema)

    def flush(self) -> None:
        """Append the buffered rows to the stream."""
        writer = self._writer
        if self.rows:
            columns, types = zip(*self.rows, strict=True), self._schema.types
            # The columns that the schema lacks are the last ones.
            arrays = [pa.array(c, kind) for c, kind in zip(columns, types, strict=False)]
            writer.write_batch(pa.record_batch(arrays, schema=self._schema))
            self.rows.clear()

    def close(self) -> None:
        """Append the remaining rows and end the stream."""
        self.flush()
        self._writer.close()


def read_stream(path: Path) -> pa.Table:
    """Read the whole batches of a stream that may be unfinished or truncated, but must exist."""
    batches, schema = [], SCHEMA
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            schema = stream.schema
            for batch in stream:
                batches.append(batch)
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, pa.ArrowIOError):
        pass
    return pa.Table.from_batches(batches, schema=schema)


def finalize(files: SampleFiles, ended: str, report: dict[str, Any]) -> None:
    """Write the report with the reason for the end, and convert the stream to Parquet.

    If the folder or the stream was removed, or the folder cannot be written, it is a `UserError`.
    """
    try:
        table = read_stream(files.stream)
    except FileNotFoundError:
        allowed = "a folder that stays; it was removed, and all samples with it"
        raise UserError("sampler.folder", str(files.folder), allowed) from None
    # The report comes first: it is small, and survives if writing a large table is interrupted.
    write_json(files.report, {"format": FORMAT, "ended": ended, "rows": len(table), **report})
    write_table(files.table, table)
    files.stream.unlink(missing_ok=True)


def read_samples(folder: Path) -> pa.Table:
    """Read the samples of a finished or a running sampler; no rows if there are none yet."""
    files = SampleFiles(folder)
    if not files.table.exists():
        try:
            return read_stream(files.stream)
        except FileNotFoundError:
            # There are none yet, or the sampler finished between the two checks.
            if not files.table.exists():
                return SCHEMA.empty_table()
    return read_table(files.table)


def with_rates(samples: pa.Table) -> pd.DataFrame:
    """Add the rates of change since the previous sample of the same process, host or interface.

    Returns
    -------
    pandas.DataFrame
        With ``cpu_cores`` (CPUs in use; times 100 the percentage that ``top`` shows) and, in bytes
        per second, ``read_rate``, ``write_rate``, ``sent_rate`` and ``received_rate``. NaN in the
        first row of each series and where nothing was measured.
    """
    frame: pd.DataFrame = samples.to_pandas()
    rates = {"cpu_cores": "cpu_s"}
    rates |= {f"{name}_rate": f"{name}_bytes" for name in ("read", "write", "sent", "received")}
    series = ["host", "scope", "name", "pid"]
    for name, column in rates.items():
        frame[name] = rate_of_change(frame, column, series)
    return frame


def rate_of_change(rows: pd.DataFrame, column: str, keys: Sequence[str]) -> pd.Series:
    """Compute the change of a counter per second since its previous known value.

    The rows are samples with ``time_s``, NaN where the counter was not read; `keys` are the columns
    that identify its series. The rate is NaN where there is no value or no earlier one, and where a
    counter fell (a device that was reset), rather than negative.
    """
    known = rows.dropna(subset=column).sort_values("time_s", kind="stable")
    series = known.groupby(list(keys), dropna=False)
    change, span_s = series[column].diff(), series["time_s"].diff()
    return (change / span_s).where((change >= 0) & (span_s > 0)).reindex(rows.index)
