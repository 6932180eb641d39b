"""How stale the gradients were that asynchronous servers applied."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from horizont.records import Record

COLUMNS = ["system", "staleness", "updates", "share"]


def staleness(records: Iterable[Record]) -> pd.DataFrame:
    """Count the updates of each staleness, of all runs whose updates were recorded.

    An update's staleness is the number of updates that its part of the weights has seen since
    its worker got it: 0 for every update of a worker alone, about one less than the number of
    workers where they are equally fast.

    Returns
    -------
    pandas.DataFrame
        The columns ``system``, ``staleness``, ``updates`` and ``share`` (of the system's), with
        a row for every staleness up to the largest.
    """
    tables = [
        record.updates().to_pandas().assign(system=record.run.system.name)
        for record in records
        if record.ok and record.run.record_updates != "none"
    ]
    if not tables:
        return pd.DataFrame(columns=COLUMNS)
    rows = []
    for system, own in pd.concat(tables).groupby("system", sort=False):
        counts = own["staleness"].value_counts()
        for value in range(int(own["staleness"].max()) + 1):
            count = int(counts.get(value, 0))
            rows.append((system, value, count, count / len(own)))
    return pd.DataFrame(rows, columns=COLUMNS)
