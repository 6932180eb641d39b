"""How communication grows with the weights of a network: a latency and an inverse bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
import pandas as pd

from horizont.analysis.claims.quantities import measure
from horizont.analysis.runs import run_columns, table_order, trained
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval

#: Networks of different sizes without which no line is fitted.
MIN_SIZES = 3

_BYTES_PER_WEIGHT = 4
_MIB = 2**20


def communication_by_size(records: Sequence[Record]) -> pd.DataFrame:
    """List the communication of a worker's instrumented step with the size of the weights.

    One row per successful distributed run: ``experiment, workload, system, block``, ``machine``,
    ``weights_mib`` and ``network_s``, transfer and waiting. Rows without either are left out.
    """
    rows = [
        {
            **run_columns(record),
            "machine": record.machine,
            "weights_mib": (record.result.parameters or nan) * _BYTES_PER_WEIGHT / _MIB,
            "network_s": measure(record, "network_s"),
        }
        for record in trained(records)
        if not record.run.system.is_local
    ]
    columns = ["experiment", "workload", "system", "block", "machine", "weights_mib", "network_s"]
    return pd.DataFrame(rows, columns=columns).dropna()


def communication_fits(records: Sequence[Record]) -> pd.DataFrame:
    """Fit ``network_s = latency_s + weights / bandwidth`` to the runs of each block.

    One row per system, experiment and type of machine with networks of `MIN_SIZES` sizes:
    ``latency_s`` and ``s_per_mib``, medians over the blocks, each with ``_low`` and ``_high``;
    their ``level``, the ``blocks`` and the number of ``sizes``. Least squares weighted by the
    inverse of the time, so that small networks count as much as large ones.
    """
    rows = []
    keys = ["experiment", "machine", "system"]
    for key, runs in communication_by_size(records).groupby(keys, sort=False):
        lines = [
            np.polyfit(block["weights_mib"], block["network_s"], 1, w=1 / block["network_s"])
            for _, block in runs.groupby("block")
            if block["weights_mib"].nunique() >= MIN_SIZES
        ]
        if lines:
            slopes, offsets = map(median_interval, np.transpose(lines))
            rows.append(
                {
                    **dict(zip(keys, key, strict=True)),
                    **offsets.columns("latency_s", "latency_s_low", "latency_s_high", "level"),
                    **slopes.columns("s_per_mib", "s_per_mib_low", "s_per_mib_high"),
                    "blocks": len(lines),
                    "sizes": runs["weights_mib"].nunique(),
                }
            )
    columns = [*keys, "latency_s", "latency_s_low", "latency_s_high", "level"]
    columns += ["s_per_mib", "s_per_mib_low", "s_per_mib_high", "blocks", "sizes"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("system", key=table_order, kind="stable", ignore_index=True)
