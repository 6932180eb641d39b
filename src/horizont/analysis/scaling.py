"""Throughput over the number of workers: speedup and efficiency, weak and strong."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pandas as pd

from horizont.analysis.frames import in_order
from horizont.analysis.throughput import run_throughput
from horizont.records import Record
from horizont.spec import Run
from horizont.stats import median_interval, paired_ratio

#: What tells one curve from another.
CURVE = ["system", "servers", "batch"]


def scaling(records: Sequence[Record]) -> pd.DataFrame:
    """Follow every system over the number of workers.

    Returns
    -------
    pandas.DataFrame
        A row a system, number of servers, ``batch`` and number of ``workers``: ``batches_per_s``
        of all workers together (a worker's batch counts as one) and ``examples_per_s``, medians
        over the runs, with ``low`` and ``high`` of the latter; ``speedup`` over one worker of the
        same curve, paired by block, ``speedup_low``, ``speedup_high`` and ``efficiency`` =
        speedup / workers; ``crowded``, whether the hosts together want more processors than
        there are; ``ok`` of ``planned`` runs; ``reason`` of the first that gave nothing.
        ``batch`` is each worker's (weak scaling) or, if it is the same for all numbers of
        workers, that of all together (strong).
    """
    if not records:
        return pd.DataFrame()
    table = run_throughput(records)
    table["workers"] = [record.run.topology.workers for record in records]
    table["servers"] = [record.run.topology.servers for record in records]
    table["crowded"] = [is_crowded(record) for record in records]
    table["batch"] = _batches([record.run for record in records])
    table["local_batch"] = [record.run.local_batch for record in records]
    order = {name: place for place, name in enumerate(in_order(table["system"]))}
    rows = []
    for _, curve in table.groupby(CURVE, sort=False):
        alone = curve[curve["workers"] == 1].set_index("block")["examples_per_s"]
        rows += [_row(point, alone) for _, point in curve.groupby("workers")]
    found = pd.DataFrame(rows)
    found["order"] = found["system"].map(order)
    found = found.sort_values(["order", "servers", "batch", "workers"], ignore_index=True)
    return found.drop(columns="order")


def is_strong(runs: Sequence[Run]) -> bool:
    """Tell whether all workers together share the same batch, however many they are."""
    by_workers: dict[int, set[int]] = {}
    for run in runs:
        by_workers.setdefault(run.topology.workers, set()).add(run.global_batch)
    shapes = list(by_workers.values())
    return len(shapes) > 1 and all(shape == shapes[0] for shape in shapes)


def _batches(runs: Sequence[Run]) -> list[int]:
    strong = is_strong(runs)
    return [run.global_batch if strong else run.local_batch for run in runs]


def is_crowded(record: Record) -> bool:
    """Tell whether the processes of a run want more processors than the machine has."""
    affinity = record.environment.get("cpu", {}).get("affinity") or []
    topology = record.run.topology
    processes = topology.workers + topology.servers
    wanted = float(processes * topology.threads)
    if topology.host_cpus is not None:
        wanted = min(wanted, len(topology.all_hosts) * topology.host_cpus)
    return bool(affinity) and wanted > len(affinity)


def _row(point: pd.DataFrame, alone: pd.Series) -> dict[str, object]:
    first = point.iloc[0]
    speed = median_interval(point["examples_per_s"])
    paired = point.set_index("block")["examples_per_s"]
    both = paired.index.intersection(alone.index)
    ratio = paired_ratio(paired.loc[both], alone.loc[both])
    reasons = [reason for reason in point["reason"] if reason]
    workers = int(first["workers"])
    return {
        **{name: first[name] for name in CURVE},
        "workers": workers,
        "batches_per_s": speed.value / first["local_batch"],
        "examples_per_s": speed.value,
        "low": speed.low,
        "high": speed.high,
        "speedup": ratio.value if ratio.n else nan,
        "speedup_low": ratio.low if ratio.n else nan,
        "speedup_high": ratio.high if ratio.n else nan,
        "efficiency": ratio.value / workers if ratio.n else nan,
        "crowded": bool(first["crowded"]),
        "ok": speed.n,
        "planned": len(point),
        "reason": reasons[0] if reasons else "",
    }
