"""Reading samples: of a run that is over, or of one that goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from horizont.monitoring.rows import SCHEMA, read_spill
from horizont.monitoring.samplerspec import SamplerFiles
from horizont.records.files import read_table


def read_samples(folder: Path, stem: str = "samples") -> pa.Table:
    """Read the samples of a record, finished or in the making; no rows if there are none yet.

    Reading never disturbs the sampler. See `horizont.monitoring.rows.Row` for the columns.
    """
    files = SamplerFiles(folder, stem)
    if not files.table.exists():
        try:
            return read_spill(files.spill)
        except FileNotFoundError:
            # None yet, or the sampler has finished between the two looks.
            if not files.table.exists():
                return SCHEMA.empty_table()
    return read_table(files.table)


def with_rates(samples: pa.Table) -> pa.Table:
    """Add what happened per second since the previous sample of the same thing.

    Returns
    -------
    pyarrow.Table
        With ``cpu_cores`` (processors kept busy; times 100 it is the percentage that ``top``
        shows) and, in bytes per second, ``read_rate``, ``write_rate``, ``sent_rate`` and
        ``received_rate``. NaN in the first row of each thing and where nothing was measured.
    """
    rates = {"cpu_cores": "cpu_s"}
    rates |= {f"{way}_rate": f"{way}_bytes" for way in ("read", "write", "sent", "received")}
    thing = _things(samples)
    time_s = samples["time_s"].to_numpy()
    for name, column in rates.items():
        values = pc.cast(samples[column], pa.float64()).to_numpy()
        samples = samples.append_column(name, pa.array(rate_of_change(thing, time_s, values)))
    return samples


def rate_of_change(
    series: npt.NDArray[np.int64], time_s: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the change of a counter per second since the same thing's previous known value.

    Parameters
    ----------
    thing, time_s, values
        Of each row: what it is about (an integer), when (in seconds), and the counter, NaN
        where it was not read.

    Returns
    -------
    numpy.ndarray
        NaN where there is no value or no earlier one. A counter that went back (a device that
        was reset) gives NaN too, not a negative rate.
    """
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.lexsort((time_s[known], series[known]))]
    rates = np.full(len(values), np.nan)
    same = series[order[1:]] == series[order[:-1]]
    change, span_s = np.diff(values[order]), np.diff(time_s[order])
    good = same & (change >= 0) & (span_s > 0)
    rates[order[1:][good]] = change[good] / span_s[good]
    return rates


def _things(samples: pa.Table) -> npt.NDArray[np.int64]:
    """Give rows about the same host, scope, name and process the same number."""
    keys = [
        pc.fill_null(pc.cast(samples[c], pa.string()), "") for c in ("host", "scope", "name", "pid")
    ]
    joined = pc.binary_join_element_wise(*keys, "\t")
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    return np.asarray(pc.dictionary_encode(joined).indices.to_numpy())
