"""Whether the runs of each system can be trusted to be repeats of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pandas as pd

from horizont.analysis.frames import of_system, systems_of
from horizont.analysis.throughput import run_throughput
from horizont.records import Record, read_events
from horizont.stats import ALPHA, WIDE, drift, spread

SPREAD, DRIFT, BACKGROUND = "spread", "drift", "background load"


def stability(records: Sequence[Record]) -> pd.DataFrame:
    """Look for signs that the runs of a system were not made under the same conditions.

    Parameters
    ----------
    records
        Of an experiment on a workload, in which each system is run at one point only.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``ok`` runs; ``spread`` of their rates, as a share; ``drift``, the rank
        correlation of rate and time of execution, and ``drift_p``, both NaN with fewer than
        five runs; ``disturbed`` runs; ``warnings``, the names of those of `SPREAD`, `DRIFT` and
        `BACKGROUND` that hold, joined by commas.
    """
    return pd.DataFrame([_row(of_system(records, name)) for name in systems_of(records)])


def _row(own: Sequence[Record]) -> dict[str, object]:
    rates = run_throughput(own)["examples_per_s"]
    correlation, p = drift([began_s(record) for record in own], rates)
    wide, disturbed = spread(rates), sum(record.result.disturbed for record in own)
    holds = {SPREAD: wide > WIDE, DRIFT: p < ALPHA, BACKGROUND: disturbed > 0}
    return {
        "system": own[0].run.system.name,
        "ok": int(rates.notna().sum()),
        "spread": wide,
        "drift": correlation,
        "drift_p": p,
        "disturbed": disturbed,
        "warnings": ", ".join(name for name, found in holds.items() if found),
    }


def began_s(record: Record) -> float:
    """Tell when a run was begun, in seconds of the calendar's clock; NaN if nobody noted it.

    The clock of the steps starts anew with the machine, and a study may be interrupted.
    """
    path = record.folder / "events.jsonl"
    events = read_events(path) if path.exists() else []
    return float(events[0].get("time_unix_s", nan)) if events else nan
