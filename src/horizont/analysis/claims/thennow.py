"""Published and measured times of a training step, in the same unit: that of one system."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.claims.published import published_times
from horizont.analysis.frames import in_order, of_system
from horizont.analysis.phases import phases
from horizont.records import Record

#: The system whose step is the unit, then and now: it was and is measured on every network.
REFERENCE = "pytorch/sync/allreduce"

#: The published parts by their names here. The network's time was not taken apart.
THEN = {
    "load": "load_s",
    "forward": "forward_s",
    "backward": "backward_s",
    "communication": "network_s",
}


def then_and_now(workload: str, records: Sequence[Record]) -> pd.DataFrame:
    """Put the published times of a workload beside those measured.

    Parameters
    ----------
    records
        Of one experiment on the workload.

    Returns
    -------
    pandas.DataFrame
        A row a system, time (``then``, ``now``) and part: ``system, time, part, share`` of the
        reference's step at that time. Of today's parts, ``communication`` holds the waiting, as
        it did then. The update was not published apart. A system without a figure at one of the
        times has no row for it.
    """
    tables = [_then(workload), _now(records)]
    tables = [table for table in tables if len(table)]
    columns = ["system", "time", "part", "share"]
    if not tables:
        return pd.DataFrame(columns=columns)
    table = pd.concat(tables, ignore_index=True)
    place = {name: number for number, name in enumerate(in_order(table["system"]))}
    return table.sort_values(
        "system", key=lambda column: column.map(place), kind="stable", ignore_index=True
    )[columns]


def _then(workload: str) -> pd.DataFrame:
    table = published_times()
    own = table[table["workload"] == workload].set_index("system")
    if REFERENCE not in own.index:
        return pd.DataFrame()
    unit = float(own["total_s"].to_dict()[REFERENCE])
    rows = [
        {"system": system, "time": "then", "part": part, "share": row[column] / unit}
        for system, row in own.iterrows()
        for part, column in THEN.items()
    ]
    return pd.DataFrame(rows)


def _now(records: Sequence[Record]) -> pd.DataFrame:
    wide = phases([record for record in records if not record.run.system.is_local])
    wide = wide.pivot(index="system", columns="part", values="mean_s")
    if REFERENCE not in wide.index or not of_system(records, REFERENCE):
        return pd.DataFrame()
    unit = float(wide.sum(axis="columns").to_dict()[REFERENCE])
    if not unit > 0:
        return pd.DataFrame()
    wide["communication"] = wide[["communication", "waiting"]].sum(axis="columns", min_count=1)
    table = (wide.drop(columns="waiting") / unit).reset_index()
    long = table.melt(id_vars="system", var_name="part", value_name="share").dropna()
    return long.assign(time="now")
