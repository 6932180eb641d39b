"""Throughput and speed-up over the number of workers, and of compute threads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from horizont.analysis.claims.publications import published_steps
from horizont.analysis.runs import table_order
from horizont.analysis.steps import step_means
from horizont.analysis.throughput import throughput_by_run
from horizont.config.run import Run
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.records.record import Record
from horizont.statistics.intervals import (
    Estimate,
    interval_at_level,
    log_ratios,
    paired_ratio,
)

#: The columns that identify a scaling curve.
_CURVE_COLUMNS = ["system", "layout", "batch"]

#: Roles that only exchange addresses while a run starts.
_IDLE_ROLES = frozenset({"scheduler"})


def scaling(records: Sequence[Record]) -> pd.DataFrame:
    """Compute throughput and speed-up of every system over the number of workers.

    One row per system, ``layout``, ``batch`` and number of ``workers``: batches of this size per
    second of all workers, ``batches_per_s`` with ``low`` and ``high``; ``examples_per_s``;
    ``speedup`` over one worker of the same curve, paired by block, ``speedup_low``,
    ``speedup_high`` and ``efficiency`` = speedup / workers; ``oversubscribed``, see
    `is_oversubscribed`; ``ok`` of ``planned`` runs; ``reason`` of the first without a throughput.
    Intervals at 95 % of the geometric mean over the blocks, of the median from six on. ``batch`` is
    that of each worker (weak scaling) or, if it is the same for all numbers of workers, the global
    one (strong). ``layout`` is the number of ``servers`` where a system has several numbers of them
    at the same number of workers, else 0.
    """
    if not records:
        return pd.DataFrame()
    table = _rates_by_run(records)
    rows = []
    for _, curve in table.groupby(_CURVE_COLUMNS, sort=False):
        single_worker = curve[curve["workers"] == 1]
        for workers, point in curve.groupby("workers"):
            first = point.iloc[0].to_dict()
            rate = _estimate_positive(point["batches_per_s"])
            speedup = _speedup(point, single_worker, "batches_per_s")
            rows.append(
                {
                    **{name: first[name] for name in _CURVE_COLUMNS},
                    "workers": workers,
                    "servers": first["servers"],
                    **rate.columns("batches_per_s", "low", "high"),
                    "examples_per_s": rate.value * first["batch"],
                    **speedup.columns("speedup", "speedup_low", "speedup_high"),
                    "efficiency": speedup.value / first["workers"],
                    "oversubscribed": first["oversubscribed"],
                    "ok": rate.n,
                    "planned": len(point),
                    "reason": next(filter(None, point["reason"]), ""),
                }
            )
    order = ["system", "layout", "batch", "workers"]
    return pd.DataFrame(rows).sort_values(order, key=table_order, ignore_index=True)


def _rates_by_run(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the throughput of every run in batches, with the curve and point it belongs to."""
    runs = [record.run for record in records]
    strong = is_strong_scaling(runs)
    table = throughput_by_run(records).assign(
        workers=[run.topology.workers for run in runs],
        servers=[run.topology.servers for run in runs],
        oversubscribed=[is_oversubscribed(record) for record in records],
        batch=[run.global_batch if strong else run.local_batch for run in runs],
    )
    # A server per worker is one layout, although its number of servers varies.
    counts = table.groupby(["system", "batch", "workers"])["servers"].transform("nunique")
    varies = counts.groupby(table["system"]).transform("max") > 1
    return table.assign(
        layout=table["servers"].where(varies, 0),
        batches_per_s=table["examples_per_s"] / table["batch"],
    )


def _speedup(point: pd.DataFrame, baseline: pd.DataFrame, column: str) -> Estimate:
    """Estimate the ratio of a column to that of a baseline at 95 %, paired by block."""
    both = point.merge(baseline[["block", column]], on="block", suffixes=("", "_baseline"))
    return paired_ratio(both[column], both[f"{column}_baseline"], interval_at_level)


def _estimate_positive(values: pd.Series) -> Estimate:
    """Estimate a positive quantity at 95 %, on a logarithmic scale."""
    return paired_ratio(values, np.ones(len(values)), interval_at_level)


def crossovers(records: Sequence[Record]) -> pd.DataFrame:
    """Find the numbers of workers at which two systems have the same throughput.

    One row per pair of scaling curves of the same batch whose first crossing lies between measured
    numbers of workers: ``batch``, ``system`` (the faster one before it), ``other_system``,
    ``crossover`` with ``crossover_low`` and ``crossover_high``. The log ratio of the two, paired by
    block, is interpolated linearly over the logarithm of the workers; the limits are where those of
    its 95 % interval are zero, NaN where that is beyond the measured numbers.
    """
    columns = ["batch", "system", "other_system"]
    columns += ["crossover", "crossover_low", "crossover_high"]
    rows: list[dict[str, Any]] = []
    if not records:
        return pd.DataFrame(rows, columns=columns)
    for batch, own in _rates_by_run(records).groupby("batch"):
        curves = own.groupby(["system", "layout"], sort=False)
        for ((system, _), one), ((other, _), another) in combinations(curves, 2):
            workers, logs = _log_ratio_curve(one, another)
            sign = np.sign(logs[0, 0]) if len(logs) else nan
            value, *limits = (_first_fall(workers, sign * column) for column in logs.T)
            if not isnan(value):
                names = (system, other) if sign > 0 else (other, system)
                row = (batch, *names, value, *limits[:: int(sign)])
                rows.append(dict(zip(columns, row, strict=True)))
    return pd.DataFrame(rows, columns=columns)


def _log_ratio_curve(
    one: pd.DataFrame, other: pd.DataFrame
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimate the log ratio of two curves by number of workers.

    From tables of `_rates_by_run`, n numbers of workers and the values, lower and upper limits of
    shape (n, 3).
    """
    both = one.merge(other, on=["workers", "block"], suffixes=("", "_other")).dropna(
        subset=["batches_per_s", "batches_per_s_other"]
    )
    workers, logs = [], []
    for number, point in both.groupby("workers"):
        rates = point["batches_per_s"], point["batches_per_s_other"]
        estimate = interval_at_level(log_ratios(*rates))
        workers.append(number)
        logs.append((estimate.value, estimate.low, estimate.high))
    return np.array(workers, dtype=np.float64), np.array(logs, dtype=np.float64).reshape(-1, 3)


def _first_fall(workers: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Find where values first fall to zero, interpolated over log workers; NaN if nowhere."""
    points = zip(np.log(workers), values, strict=True)
    for (log, value), (next_log, next_value) in pairwise(points):
        if value > 0 >= next_value:
            return float(np.exp(log + (next_log - log) * value / (value - next_value)))
    return nan


def is_sweep_over_threads(records: Sequence[Record]) -> bool:
    """Whether the number of threads was varied, and no other size."""
    runs = [record.run for record in records]
    sizes = {(run.topology.workers, run.local_batch, run.topology.threads) for run in runs}
    return len({threads for _, _, threads in sizes}) == len(sizes) > 1


def thread_speedup(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the speed-up of every system by more compute threads.

    One row per system and number of ``threads`` above the smallest one, ``fewest``: ``speedup``
    over that, paired by block, with ``low`` and ``high``. Intervals as of `scaling`.
    """
    table = throughput_by_run(records)
    table["threads"] = [record.run.topology.threads for record in records]
    rows = []
    for system, own in table.groupby("system"):
        fewest = own["threads"].min()
        baseline = own[own["threads"] == fewest]
        for threads, point in own[own["threads"] > fewest].groupby("threads"):
            speedup = _speedup(point, baseline, "examples_per_s")
            ratio = speedup.columns("speedup", "low", "high")
            rows.append({"system": system, "threads": threads, "fewest": fewest, **ratio})
    columns = ["system", "threads", "fewest", "speedup", "low", "high"]
    speedups = pd.DataFrame(rows, columns=columns)
    return speedups.sort_values(["system", "threads"], key=table_order, ignore_index=True)


def published_training_times(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the training time of the published epochs, without start-up.

    One row per system, ``layout``, ``local_batch`` and number of ``workers``: ``steps`` of a worker
    in the published training of the workload; in seconds, their number times the mean timed step,
    ``training_s``, with ``low`` and ``high`` at 95 % over the blocks; ``oversubscribed``, see
    `is_oversubscribed`. No row for a batch that was not published.
    """
    columns = ["system", "layout", "local_batch", "workers", "steps", "oversubscribed"]
    rows = []
    if records:
        runs = [record.run for record in records]
        table = _rates_by_run(records).assign(
            local_batch=[run.local_batch for run in runs],
            steps=[published_steps(run.workload_name, run.local_batch) for run in runs],
            step_s=[step_means(record)["timed_s"] if record.ok else nan for record in records],
        )
        for key, point in table.dropna(subset=["steps", "step_s"]).groupby(columns):
            training = _estimate_positive(point["steps"] * point["step_s"])
            times = training.columns("training_s", "low", "high")
            rows.append({**dict(zip(columns, key, strict=True)), **times})
    result = pd.DataFrame(rows, columns=[*columns, "training_s", "low", "high"])
    return result.sort_values(columns[:4], key=table_order, ignore_index=True)


def is_strong_scaling(runs: Sequence[Run]) -> bool:
    """Whether the global batch does not depend on the number of workers."""
    by_workers: dict[int, set[int]] = {}
    for run in runs:
        by_workers.setdefault(run.topology.workers, set()).add(run.global_batch)
    batches = list(by_workers.values())
    return len(batches) > 1 and all(batch == batches[0] for batch in batches)


def is_oversubscribed(record: Record) -> bool:
    """Whether the processes of a run share a machine and demand more CPUs than it has.

    Every process that computes counts: all but those of `_IDLE_ROLES`.
    """
    topology, machine = record.run.topology, record.environment
    if topology.launcher != DEFAULT_LAUNCHER and not record.has("shared_clock"):
        hosts = list(record.environment.get("hosts", {}).values())
        if len({host["machine_number"] for host in hosts}) != 1:
            return False  # each host is a machine
        machine = hosts[0]
    affinity = machine.get("cpu", {}).get("affinity") or []
    single = set(record.run.system.info.roles) - {"worker", "server"} - _IDLE_ROLES
    processes = topology.workers + topology.servers + len(single)
    demand = float(processes * topology.threads)
    if topology.cpus_per_host is not None:
        demand = min(demand, len(topology.all_hosts) * topology.cpus_per_host)
    return bool(affinity) and demand > len(affinity) + 1e-9
