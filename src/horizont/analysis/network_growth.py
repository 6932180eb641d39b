"""How communication grows with the weights of a network: a latency and an inverse bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import pandas as pd

from horizont.analysis.claims.quantities import measure
from horizont.analysis.runs import by_system, concat_tables, run_columns
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval

#: Networks of different sizes without which no line is fitted.
MIN_SIZES = 3

_BYTES_PER_WEIGHT = 4
_MIB = 2**20


def communication_by_size(records: Sequence[Record]) -> pd.DataFrame:
    """List the communication of a worker's instrumented step with the size of the weights.

    One row per successful distributed run: ``experiment, workload, system, block``, ``weights_mib``
    and ``network_s``, transfer and waiting. Rows without either are left out.
    """
    rows = [
        {
            **run_columns(record),
            "weights_mib": (record.result.parameters or nan) * _BYTES_PER_WEIGHT / _MIB,
            "network_s": measure(record, "network_s"),
        }
        for record in records
        if record.ok and record.run.fault is None and not record.run.system.is_local
    ]
    columns = ["experiment", "workload", "system", "block", "weights_mib", "network_s"]
    return pd.DataFrame(rows, columns=columns).dropna()


def communication_fits(records: Sequence[Record]) -> pd.DataFrame:
    """Fit ``network_s = latency_s + weights / bandwidth`` to the runs of each block.

    One row per system and experiment with networks of `MIN_SIZES` sizes: ``latency_s`` and
    ``s_per_mib``, medians over the blocks, each with ``_low`` and ``_high``; their ``level``, the
    ``blocks`` and the number of ``sizes``. Least squares weighted by the inverse of the time, so
    that small networks count as much as large ones.
    """
    tables = []
    for experiment, table in communication_by_size(records).groupby("experiment", sort=False):
        fits = [
            _system_fit(own, str(system)) for system, own in table.groupby("system", sort=False)
        ]
        rows = [{"experiment": experiment, **fit} for fit in fits if fit]
        tables.append(pd.DataFrame(rows))
    columns = ["experiment", "system", "latency_s", "s_per_mib", "level", "blocks", "sizes"]
    fitted = concat_tables(tables, columns)
    order = {name: position for position, name in enumerate(by_system(records))}
    return fitted.sort_values("system", key=lambda names: names.map(order), ignore_index=True)


def _system_fit(runs: pd.DataFrame, system: str) -> dict[str, object]:
    """Return the fit of a system; empty if its blocks have too few sizes."""
    lines = [
        np.polyfit(block["weights_mib"], block["network_s"], 1, w=1 / block["network_s"])
        for _, block in runs.groupby("block")
        if block["weights_mib"].nunique() >= MIN_SIZES
    ]
    if not lines:
        return {}
    slopes, offsets = np.transpose(lines)
    latency, slope = median_interval(offsets), median_interval(slopes)
    return {
        "system": system,
        **latency.columns("latency_s", "latency_s_low", "latency_s_high", "level"),
        **slope.columns("s_per_mib", "s_per_mib_low", "s_per_mib_high"),
        "blocks": len(lines),
        "sizes": runs["weights_mib"].nunique(),
    }
