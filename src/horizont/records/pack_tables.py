"""The tables of many runs as one: times in whole microseconds, and samples thinned.

A packed table has a column ``run`` before those of the run's own table, and a run's rows are
consecutive. A column of times has the unit in its name, ``step_us`` for ``step_s``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from horizont.records.files import write_atomically

#: The tables of a record that a pack has, by their file names.
TABLES = (
    "steps.parquet",
    "samples.parquet",
    "evaluation.parquet",
    "operators.parquet",
    "input_batches.parquet",
    "updates.parquet",
)

#: A profiler reports times of an operator below a microsecond.
_EXACT = frozenset({"operators.parquet"})

_OPTIONS = {"compression": "zstd", "compression_level": 19, "write_statistics": False}
_SECONDS, _MICROSECONDS = "_s", "_us"


def write_packed(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write the tables of runs, by the name of the run, as one file."""
    named = [
        table.add_column(0, "run", pa.array([run] * len(table), pa.string()))
        for run, table in tables.items()
    ]
    whole = pa.concat_tables(named, promote_options="permissive").combine_chunks()
    columns = dict(_encode(whole, path.name not in _EXACT))
    write_parquet(path, pa.table(columns))


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a compressed table; numbers byte by byte, of which the upper ones compress well."""
    numbers = [
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    options = {
        "use_dictionary": [name for name in table.column_names if name not in numbers],
        "column_encoding": dict.fromkeys(numbers, "BYTE_STREAM_SPLIT") or None,
        **_OPTIONS,
    }
    write_atomically(path, lambda temporary: pq.write_table(table, temporary, **options))


def _encode(table: pa.Table, in_microseconds: bool) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield name and values of each column as they are stored."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_floating(column.type):
            yield name, column
        elif in_microseconds and name.endswith(_SECONDS):
            known = pc.if_else(pc.is_finite(column), column, None)
            microseconds = pc.cast(pc.round(pc.multiply(known, 1e6)), pa.int64())
            yield name.removesuffix(_SECONDS) + _MICROSECONDS, microseconds
        else:
            yield name, _narrowed(column)


def _narrowed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers in single precision if that loses nothing."""
    narrow = pc.cast(column, pa.float32(), safe=False)
    same = pc.equal(pc.cast(narrow, pa.float64()), column)
    is_lossless = pc.all(pc.or_(pc.fill_null(same, True), pc.fill_null(pc.is_nan(column), True)))
    return narrow if is_lossless.as_py() is not False else column


def decode(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return some columns of a packed table as in a run's own table: times in seconds."""
    decoded = {}
    for name in columns:
        microseconds = name.removesuffix(_SECONDS) + _MICROSECONDS
        if name.endswith(_SECONDS) and microseconds in table.column_names:
            decoded[name] = pc.divide(pc.cast(table[microseconds], pa.float64()), 1e6)
        elif pa.types.is_floating(table[name].type):
            decoded[name] = pc.cast(table[name], pa.float64())
        else:
            decoded[name] = table[name]
    return pa.table(decoded)


def row_ranges(table: pa.Table) -> dict[str, tuple[int, int]]:
    """Return the first row of each run in a packed table, and the number of its rows."""
    encoded = pc.run_end_encode(table["run"].combine_chunks())
    names, ends = encoded.values.to_pylist(), encoded.run_ends.to_pylist()
    firsts = [0, *ends]
    ranges = zip(names, firsts, ends, strict=False)
    return {name: (first, end - first) for name, first, end in ranges}


def thin_samples(samples: pa.Table, steps: pa.Table | None) -> pa.Table:
    """Reduce resource samples to one a second and those that quantities are computed from.

    These are the neighbours of the first and of the last moment of each kind of steps of each
    worker, between which counters are interpolated, and the samples with the largest memory: of
    the whole run and of the training, of each process and of all together. Machines of a cluster
    are sampled at times of their own, each is thinned by itself.
    """
    if "host" not in samples.column_names:
        return _thin_ticks(samples, steps)
    hosts = pc.unique(samples["host"].filter(pc.equal(samples["scope"], "host"))).to_pylist()
    parts = [samples.filter(pc.equal(samples["host"], host)) for host in hosts]
    if len(parts) > 1 and sum(map(len, parts)) == len(samples):
        return pa.concat_tables([_thin_ticks(part, steps) for part in parts]).sort_by("time_s")
    return _thin_ticks(samples, steps)


def _thin_ticks(samples: pa.Table, steps: pa.Table | None) -> pa.Table:
    if not len(samples):
        return samples
    times_s, ticks = np.unique(samples["time_s"].to_numpy(), return_inverse=True)
    seconds = np.floor(times_s - times_s[0])
    is_stored = np.diff(seconds, prepend=-1.0) > 0
    is_stored[-1] = True
    windows_s = [(times_s[0], times_s[-1])]
    if steps is not None and len(steps):
        bounds_s = _bounds(steps)
        after = np.searchsorted(times_s, bounds_s, side="right")
        is_stored[np.clip([after - 1, after], 0, len(times_s) - 1)] = True
        windows_s.append((bounds_s.min(), bounds_s.max()))
    for begin_s, end_s in windows_s:
        is_inside = (times_s >= begin_s) & (times_s <= end_s)
        is_stored[_ticks_of_peaks(samples, ticks, is_inside)] = True
    return samples.filter(pa.array(is_stored[ticks]))


def _bounds(steps: pa.Table) -> NDArray[np.float64]:
    """Return start and end of each kind of steps of each worker, on the clock of the run."""
    ends = pc.add(steps["start_s"], steps["step_s"])
    spans = (
        steps.append_column("end_s", ends)
        .group_by(["worker", "kind"])
        .aggregate([("start_s", "min"), ("end_s", "max")])
    )
    return np.concatenate([spans["start_s_min"].to_numpy(), spans["end_s_max"].to_numpy()])


def _ticks_of_peaks(
    samples: pa.Table, ticks: NDArray[np.intp], is_inside: NDArray[np.bool_]
) -> list[int]:
    """Return the samples in a window with the largest memory of each process, and of all."""
    rows = samples.to_pandas().assign(tick=ticks)[is_inside[ticks]]
    peaks: list[int] = []
    for scope, column in (("process", "rss_bytes"), ("device", "device_memory_bytes")):
        own = rows[rows["scope"] == scope]
        if column in own and len(own):
            used = own.pivot_table(column, "tick", "name", "sum", fill_value=0.0)
            peaks += [*used.idxmax(), used.sum(axis="columns").idxmax()]
    return peaks
