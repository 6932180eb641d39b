"""Training speed from the bare steps: examples per second while all workers were at work."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.digest import digest
from horizont.analysis.frames import identity, of_system, systems_of
from horizont.records import Record
from horizont.stats import median_interval

#: Why a run that went well may have no throughput.
APART = "the workers made no bare steps at the same time"


def run_throughput(records: Sequence[Record]) -> pd.DataFrame:
    """Measure the throughput of every run.

    Returns
    -------
    pandas.DataFrame
        A row a run, ``examples_per_s`` and ``batch_s`` (seconds for one global batch); NaN for
        a run that failed or was skipped.
    """
    return pd.DataFrame([_run_row(record) for record in records])


def _run_row(record: Record) -> dict[str, object]:
    rate = digest(record).examples_per_s if record.ok else float("nan")
    return {
        **identity(record),
        "status": record.result.status,
        "reason": record.result.reason,
        "examples_per_s": rate,
        "batch_s": record.run.global_batch / rate,
    }


def throughput(records: Sequence[Record]) -> pd.DataFrame:
    """Estimate the throughput of every system from its runs.

    Returns
    -------
    pandas.DataFrame
        A row a system, in examples per second: the median over the blocks ``examples_per_s``,
        ``low``, ``high`` and the ``level`` that the interval can reach with this number of
        runs; ``ok`` of ``planned`` runs; ``reason`` of the first run that gave nothing.
    """
    return pd.DataFrame([_system_row(records, system) for system in systems_of(records)])


def _system_row(records: Sequence[Record], system: str) -> dict[str, object]:
    own = of_system(records, system)
    table = run_throughput(own)
    estimate = median_interval(table["examples_per_s"])
    reasons = [f"{r.result.status}: {r.result.reason}" for r in own if not r.ok]
    if table["examples_per_s"].isna().any():
        reasons.append(APART)
    return {
        "experiment": own[0].run.experiment,
        "workload": own[0].run.workload_name,
        "system": system,
        "examples_per_s": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "level": estimate.level,
        "ok": estimate.n,
        "planned": len(own),
        "reason": reasons[0] if reasons else "",
    }
