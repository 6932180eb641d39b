"""The table of incidents, for readers."""

from __future__ import annotations

import pandas as pd

from horizont.report import words
from horizont.report.tables import Table, plain_table, shortened


def incident_table(incidents: pd.DataFrame) -> Table:
    """Write what came of the incidents, a part for each system.

    Parameters
    ----------
    incidents
        As of `horizont.analysis.incidents`.
    """
    rows = [_row(row) for _, row in incidents.iterrows()]
    numbers = {"steps", "noticed, s"}
    return plain_table(pd.DataFrame(rows), numbers, group_by="system" if rows else None)


def _row(row: pd.Series) -> dict[str, str]:
    if row["reason"]:
        return {**_head(row), "how": shortened(row["reason"])}
    noticed = row["noticed_s"]
    return {
        **_head(row),
        "steps": f"{row['steps']:.0f} of {row['planned']}",
        "noticed, s": "–" if pd.isna(noticed) else f"{noticed:.1f}",
        "how": shortened(row["how"]),
        "survivors": row["survivors"] or "none",
        "weights still on": row["weights"] or "none: lost",
        "the training": _outcome(row),
    }


def _head(row: pd.Series) -> dict[str, str]:
    blank = dict.fromkeys(("steps", "noticed, s", "how", "survivors", "weights still on"), "–")
    system = words.system(row["system"])
    return {"system": system, "incident": row["incident"], **blank, "the training": "–"}


def _outcome(row: pd.Series) -> str:
    again = {True: ", with the one started again", False: ", without the one started again"}
    return str(row["outcome"]) + (
        again.get(row["again"], "") if row["outcome"] == "goes on" else ""
    )
