"""Throughput and speed-up over the number of workers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from horizont.analysis.runs import table_order
from horizont.analysis.throughput import throughput_by_run
from horizont.config.run import Run
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.records.record import Record
from horizont.statistics.intervals import median_interval, paired_ratio

#: The columns that identify a scaling curve.
_CURVE_COLUMNS = ["system", "servers", "batch"]

#: Roles that only exchange addresses while a run starts.
_IDLE_ROLES = frozenset({"scheduler"})


def scaling(records: Sequence[Record]) -> pd.DataFrame:
    """Compute throughput and speed-up of every system over the number of workers.

    One row per system, number of servers, ``batch`` and number of ``workers``: ``batches_per_s`` of
    all workers (a worker's batch counts as one) and ``examples_per_s``, medians over the runs, with
    ``low`` and ``high`` of the latter; ``speedup`` over one worker of the same curve, paired by
    block, ``speedup_low``, ``speedup_high`` and ``efficiency`` = speedup / workers;
    ``oversubscribed``, see `is_oversubscribed`; ``ok`` of ``planned`` runs; ``reason`` of the first
    without a throughput. ``batch`` is that of each worker (weak scaling) or, if it is the same for
    all numbers of workers, the global one (strong).
    """
    if not records:
        return pd.DataFrame()
    runs = [record.run for record in records]
    strong = is_strong_scaling(runs)
    table = throughput_by_run(records).assign(
        workers=[run.topology.workers for run in runs],
        servers=[run.topology.servers for run in runs],
        oversubscribed=[is_oversubscribed(record) for record in records],
        batch=[run.global_batch if strong else run.local_batch for run in runs],
        local_batch=[run.local_batch for run in runs],
    )
    rows = []
    for _, curve in table.groupby(_CURVE_COLUMNS, sort=False):
        single_worker = curve.loc[curve["workers"] == 1, ["block", "examples_per_s"]]
        for workers, point in curve.groupby("workers"):
            first = point.iloc[0].to_dict()
            rate = median_interval(point["examples_per_s"])
            both = point.merge(single_worker, on="block", suffixes=("", "_alone"))
            speedup = paired_ratio(both["examples_per_s"], both["examples_per_s_alone"])
            rows.append(
                {
                    **{name: first[name] for name in _CURVE_COLUMNS},
                    "workers": workers,
                    "batches_per_s": rate.value / first["local_batch"],
                    **rate.columns("examples_per_s", "low", "high"),
                    **speedup.columns("speedup", "speedup_low", "speedup_high"),
                    "efficiency": speedup.value / first["workers"],
                    "oversubscribed": first["oversubscribed"],
                    "ok": rate.n,
                    "planned": len(point),
                    "reason": next(filter(None, point["reason"]), ""),
                }
            )
    order = ["system", "servers", "batch", "workers"]
    return pd.DataFrame(rows).sort_values(order, key=table_order, ignore_index=True)


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
    topology = record.run.topology
    if topology.launcher != DEFAULT_LAUNCHER and not record.has("shared_clock"):
        return False  # each host is a machine
    affinity = record.environment.get("cpu", {}).get("affinity") or []
    single = set(record.run.system.info.roles) - {"worker", "server"} - _IDLE_ROLES
    processes = topology.workers + topology.servers + len(single)
    demand = float(processes * topology.threads)
    if topology.cpus_per_host is not None:
        demand = min(demand, len(topology.all_hosts) * topology.cpus_per_host)
    return bool(affinity) and demand > len(affinity) + 1e-9
