"""How long a training takes to come to a loss."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.frames import in_order, of_system
from horizont.analysis.learning import losses, smoothed
from horizont.records import Record
from horizont.stats import median_interval


def time_to_loss(records: Sequence[Record], goal: float | None = None) -> pd.DataFrame:
    """Tell how soon each system came to a loss, from its first step.

    Parameters
    ----------
    goal
        The smoothed loss to come to; nothing takes the lowest that every run came to.

    Returns
    -------
    pandas.DataFrame
        A row a system: ``goal``, ``time_s`` with ``low``, ``high`` and ``level`` (median over
        runs), ``examples`` that it took (median), ``reached`` of ``planned`` runs.
    """
    table = smoothed(losses(records))
    if goal is None:
        goal = float(table.groupby(["system", "block"])["smooth"].min().max())
    rows = []
    for system in in_order(table["system"].unique()):
        runs = [run for _, run in table[table["system"] == system].groupby("block")]
        there = [run[run["smooth"] <= goal].head(1) for run in runs]
        times = [float(first["time_s"].iloc[0]) for first in there if len(first)]
        examples = [float(first["examples"].iloc[0]) for first in there if len(first)]
        time = median_interval(times)
        rows.append(
            {
                "system": system,
                "goal": goal,
                "time_s": time.value,
                "time_low_s": time.low,
                "time_high_s": time.high,
                "level": time.level,
                "examples": median_interval(examples).value,
                "reached": len(times),
                "planned": len(of_system(records, system)),
            }
        )
    return pd.DataFrame(rows)
