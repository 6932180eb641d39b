"""Training speed from the bare steps: examples per second while all workers were at work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from horizont.analysis.frames import identity, of_system, steps_of, systems_of
from horizont.records import Record
from horizont.stats import median_interval


def common_window(steps: pd.DataFrame) -> tuple[float, float]:
    """Find when all workers were making bare steps.

    Returns
    -------
    tuple of float
        From the latest of the workers' first starts to the earliest of their last ends, in
        seconds of the run's clock. The end is before the start if there was no such time.
    """
    bare = steps[steps["kind"] == "bare"]
    by_worker = bare.assign(end_s=bare["start_s"] + bare["step_s"]).groupby("worker")
    return float(by_worker["start_s"].min().max()), float(by_worker["end_s"].max().min())


def examples_per_second(steps: pd.DataFrame) -> float:
    """Measure the throughput of one run over the window that is common to its workers.

    A step that is only partly inside the window counts with that part of its examples; without
    it, the result would depend on where the window happens to cut a step.

    Returns
    -------
    float
        Examples per second of all workers together; NaN if there was no common window.
    """
    bare = steps[steps["kind"] == "bare"]
    if bare.empty:
        return float("nan")
    begin_s, end_s = common_window(bare)
    if end_s <= begin_s:
        return float("nan")
    start = bare["start_s"].to_numpy()
    spent = bare["step_s"].to_numpy()
    inside = np.minimum(start + spent, end_s) - np.maximum(start, begin_s)
    share = np.clip(inside / spent, 0.0, 1.0)
    return float((share * bare["examples"].to_numpy()).sum() / (end_s - begin_s))


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
    rate = examples_per_second(steps_of(record)) if record.ok else float("nan")
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
