"""The table of samples: schema, Arrow stream while sampling, Parquet at the end, rates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from horizont.errors import UserError
from horizont.records.files import read_table, write_json, write_table

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
        ``process``, ``host``, ``interface``, or ``sampler`` (the sampler's own process, so that
        its cost is recorded apart from that of the run).
    name
        Role of a process (``worker-0``), the host, or the network interface.
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


def _column_type(column: str) -> pa.DataType:
    if column in ("host", "scope", "name"):
        return pa.string()
    return pa.float64() if column.endswith("_s") or column == "load_1min" else pa.int64()


SCHEMA = pa.schema(
    [(column, _column_type(column)) for column in Sample._fields],
    metadata={"horizont.samples.format": str(FORMAT)},
)


@dataclass(frozen=True)
class SampleFiles:
    """Paths of one sampler's files.

    Attributes
    ----------
    folder
        The folder of all of them.
    stem
        File name without suffix; one per sampler of a folder.
    """

    folder: Path
    stem: str = "samples"

    @property
    def table(self) -> Path:
        """The finished table."""
        return self.folder / f"{self.stem}.parquet"

    @property
    def report(self) -> Path:
        """Missed deadlines, lateness, processes and why sampling ended."""
        return self.folder / f"{self.stem}.json"

    @property
    def stream(self) -> Path:
        """The table while sampling; it exists once the first sample has been taken."""
        return self.folder / f".{self.stem}.arrows"


class SampleStream:
    """Rows buffered in memory and appended to an Arrow stream in batches.

    Unlike Parquet, which is unreadable without its last byte, a stream can be read up to its last
    whole batch at any time: a killed sampler loses one batch, and a running one can be watched.
    The file is created by the first `flush`.
    """

    def __init__(self, path: Path) -> None:
        self.rows: list[Sample] = []
        self._path = path
        self._opened: tuple[pa.NativeFile, pa.RecordBatchWriter] | None = None

    def flush(self) -> None:
        """Append the buffered rows to the stream."""
        _, writer = self._open()
        if self.rows:
            columns = zip(*self.rows, strict=True)
            arrays = [pa.array(c, kind) for c, kind in zip(columns, SCHEMA.types, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
            self.rows.clear()

    def close(self) -> None:
        """Append the remaining rows and end the stream."""
        self.flush()
        sink, writer = self._open()
        writer.close()
        sink.close()

    def _open(self) -> tuple[pa.NativeFile, pa.RecordBatchWriter]:
        if self._opened is None:
            sink = pa.OSFile(str(self._path), "wb")
            self._opened = (sink, pa.ipc.new_stream(sink, SCHEMA))
        return self._opened


def read_stream(path: Path) -> pa.Table:
    """Read the whole batches of a stream that may be unfinished or truncated.

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


def finalize(files: SampleFiles, ended: str, report: dict[str, Any]) -> None:
    """Write the report, convert the stream to Parquet and remove the stream.

    Parameters
    ----------
    files
        Paths of the stream and of the results.
    ended
        Why sampling ended.
    report
        Further fields of the report.

    Raises
    ------
    UserError
        If the folder or the stream was removed, or the folder cannot be written.
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


def read_samples(folder: Path, stem: str = "samples") -> pa.Table:
    """Read the samples of a finished or a running sampler; no rows if there are none yet."""
    files = SampleFiles(folder, stem)
    if not files.table.exists():
        try:
            return read_stream(files.stream)
        except FileNotFoundError:
            # There are none yet, or the sampler finished between the two checks.
            if not files.table.exists():
                return SCHEMA.empty_table()
    return read_table(files.table)


def with_rates(samples: pa.Table) -> pa.Table:
    """Add the rates of change since the previous sample of the same process, host or interface.

    Returns
    -------
    pyarrow.Table
        With ``cpu_cores`` (CPUs in use; times 100 the percentage that ``top`` shows) and, in bytes
        per second, ``read_rate``, ``write_rate``, ``sent_rate`` and ``received_rate``. NaN in the
        first row of each series and where nothing was measured.
    """
    rates = {"cpu_cores": "cpu_s"}
    rates |= {f"{name}_rate": f"{name}_bytes" for name in ("read", "write", "sent", "received")}
    series = _series_ids(samples)
    time_s = samples["time_s"].to_numpy()
    for name, column in rates.items():
        values = pc.cast(samples[column], pa.float64()).to_numpy()
        samples = samples.append_column(name, pa.array(rate_of_change(series, time_s, values)))
    return samples


def rate_of_change(
    series: npt.NDArray[np.int64], time_s: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Compute the change of counters per second since the previous known value of their series.

    Parameters
    ----------
    series, time_s, values
        For each row the number of its series, the time in seconds, and the counter; NaN where it
        was not read.

    Returns
    -------
    numpy.ndarray
        NaN where there is no value or no earlier one, and where a counter fell (a device that was
        reset), rather than a negative rate.
    """
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.lexsort((time_s[known], series[known]))]
    rates = np.full(len(values), np.nan)
    same = series[order[1:]] == series[order[:-1]]
    change, span_s = np.diff(values[order]), np.diff(time_s[order])
    valid = same & (change >= 0) & (span_s > 0)
    rates[order[1:][valid]] = change[valid] / span_s[valid]
    return rates


def _series_ids(samples: pa.Table) -> npt.NDArray[np.int64]:
    """Return a number per row, equal for rows of the same host, scope, name and process."""
    keys = [
        pc.fill_null(pc.cast(samples[c], pa.string()), "") for c in ("host", "scope", "name", "pid")
    ]
    joined = pc.binary_join_element_wise(*keys, "\t")
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    return np.asarray(pc.dictionary_encode(joined).indices.to_numpy())
