"""What has to cross the wire in theory: bytes of each host and step, and how long they take.

Volumes: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
MPICH" (2005), for the ring; for a parameter server each worker sends the gradient of every
weight and receives every weight. Headers, acknowledgements and everything beside the numbers are
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean

import numpy as np
import numpy.typing as npt
import pandas as pd

from horizont.analysis.runs import (
    HOST_INTERFACE,
    records_of_system,
    run_columns,
    samples_of,
    steps_of,
    system_order,
    systems_of,
)
from horizont.analysis.steps import common_window, instrumentation_overhead, phases, window_overlap
from horizont.analysis.throughput import throughput_by_run
from horizont.config.run import Run
from horizont.config.system import parse_system
from horizont.config.topology import Topology
from horizont.records.record import Record
from horizont.statistics.intervals import median, median_interval, paired_ratio

#: Bytes of a number on its way.
NUMBER_BYTES = {"none": 4, "float16": 2}


#: Frameworks whose servers each keep an equally long slice of all weights.
EQUAL_SLICES = ("pytorch",)


@dataclass(frozen=True)
class Volume:
    """Bytes that a host sends and receives; NaN if unknown."""

    sent_bytes: float
    received_bytes: float


def theoretical_traffic(run: Run, parameters: int, steps: Sequence[float]) -> dict[str, Volume]:
    """Tell what each host has to send and receive for some steps of the workers.

    What stays on a host is not counted.

    Parameters
    ----------
    parameters
        Numbers that the network learns.
    steps
        Of each worker, by rank.
    """
    topology = run.topology
    size = float(parameters * NUMBER_BYTES[run.gradient_exchange.compression])
    if run.system.is_local:
        return {host: Volume(0.0, 0.0) for host in topology.all_hosts}
    if run.system.architecture == "allreduce":
        return _ring_traffic(topology, size * min(steps) / run.gradient_exchange.local_steps)
    return _server_traffic(topology, size, steps, equal=run.system.framework in EQUAL_SLICES)


def _ring_traffic(topology: Topology, size: float) -> dict[str, Volume]:
    """Each worker sends 2 (n - 1) / n of the gradients to its neighbour in the ring."""
    n = topology.workers
    seats = _assign_round_robin(topology.worker_hosts, n)
    # The ring may turn either way round: a host's neighbours are the same, and so are the bytes.
    going = Counter(seat for rank, seat in enumerate(seats) if seats[(rank + 1) % n] != seat)
    coming = Counter(seat for rank, seat in enumerate(seats) if seats[rank - 1] != seat)
    share = 2 * (n - 1) / n * size
    return {host: Volume(going[host] * share, coming[host] * share) for host in topology.all_hosts}


def _server_traffic(
    topology: Topology, size: float, steps: Sequence[float], *, equal: bool
) -> dict[str, Volume]:
    """Each worker sends its gradient to the servers and receives the weights.

    How the weights are dealt to several servers is the framework's affair: unless they are
    `equal` slices, what a host with one of several servers sends and receives is not known.
    """
    by_host: dict[str, float] = dict.fromkeys(topology.all_hosts, 0.0)
    for host, made in zip(
        _assign_round_robin(topology.worker_hosts, topology.workers), steps, strict=True
    ):
        by_host[host] += made
    servers = Counter(_assign_round_robin(topology.server_hosts, topology.servers))
    found = {}
    for host, own in by_host.items():
        here = servers[host] / topology.servers
        # Its workers with the servers elsewhere, its servers with the workers elsewhere.
        exchanges = own * (1 - here) + (sum(steps) - own) * here
        if 0 < here < 1 and not equal:
            exchanges = nan
        found[host] = Volume(exchanges * size, exchanges * size)
    return found


def _assign_round_robin(hosts: Sequence[str], count: int) -> list[str]:
    return [hosts[place % len(hosts)] for place in range(count)]


def wire_time(run: Run, parameters: int) -> float:
    """Tell how long the busiest direction of any link needs for a step of each worker, in seconds.

    Zero on links without a limit; NaN if it is not known. Latency is left out.
    """
    link = run.topology.link
    each = theoretical_traffic(run, parameters, [1.0] * run.topology.workers).values()
    longest = 0.0
    for rate, sizes in (
        (link.effective_uplink_mbit, [volume.sent_bytes for volume in each]),
        (link.rate_mbit, [volume.received_bytes for volume in each]),
    ):
        if rate is not None:
            longest = max(longest, *(8 * size / (rate * 1e6) for size in sizes))
    return longest


def traffic(records: Sequence[Record]) -> pd.DataFrame:
    """Count the bytes of a step on each emulated host.

    Returns
    -------
    pandas.DataFrame
        A row a run and host: ``workers``, ``servers``, ``rate_mbit``, ``host``, ``sent_bytes``
        and ``received_bytes`` for one step of each worker on average, over the time in which all
        workers made bare steps; ``sent_theory_bytes``, ``received_theory_bytes``; ``sent_ratio``,
        ``received_ratio``: measured to theory, NaN where theory is nothing or unknown.
        Nothing of runs without hosts of their own, or without such a time.
    """
    rows = [row for record in records if record.ok for row in _traffic_rows(record)]
    columns = ["system", "block", "host", "sent_bytes", "received_bytes"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


def _traffic_rows(record: Record) -> list[dict[str, object]]:
    run, steps = record.run, steps_of(record)
    samples = samples_of(record)
    if not run.topology.is_emulated or samples.empty or record.result.parameters is None:
        return []
    begin_s, end_s = common_window(steps)
    by_worker = steps_in_window(steps, begin_s, end_s)
    made = sum(by_worker) / run.topology.workers
    # Where a chief hands out the steps, the quick may leave none to the slow.
    if len(by_worker) < run.topology.workers or not made > 0:
        return []
    theory = theoretical_traffic(run, record.result.parameters, by_worker)
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == HOST_INTERFACE)]
    rows = []
    for host in run.topology.all_hosts:
        own = wires[wires["host"] == host]
        row: dict[str, object] = {
            **run_columns(record),
            "workers": run.topology.workers,
            "servers": run.topology.servers,
            "rate_mbit": run.topology.link.rate_mbit,
            "host": host,
        }
        for way in ("sent", "received"):
            counted = interpolate_counter(own, f"{way}_bytes", begin_s, end_s) / made
            expected = getattr(theory[host], f"{way}_bytes") / made
            row[f"{way}_bytes"] = counted
            row[f"{way}_theory_bytes"] = expected
            row[f"{way}_ratio"] = counted / expected if expected > 0 else nan
        rows.append(row)
    return rows


def steps_in_window(steps: pd.DataFrame, begin_s: float, end_s: float) -> list[float]:
    """Count the bare steps in a window of each worker that made any, by rank.

    A step cut by the window counts with its part.
    """
    bare = steps[steps["kind"] == "timed"]
    shares = pd.Series(window_overlap(bare, begin_s, end_s), index=bare["worker"])
    return [float(made) for made in shares.groupby(level=0).sum().sort_index()]


def interpolate_counter(samples: pd.DataFrame, column: str, begin_s: float, end_s: float) -> float:
    """Tell how far a counter went between two moments, evenly between two samples.

    NaN if the samples do not reach over both: what was not seen is not nothing.
    """
    if len(samples) < 2:
        return nan
    ordered = samples.sort_values("time_s")
    times: npt.NDArray[np.float64] = ordered["time_s"].to_numpy(float)
    counts: npt.NDArray[np.float64] = ordered[column].to_numpy(float)
    begin, end = np.interp([begin_s, end_s], times, counts, left=nan, right=nan)
    return float(end - begin)


def link_utilisation(records: Sequence[Record]) -> pd.DataFrame:
    """Hold the step against what the wire allows.

    Returns
    -------
    pandas.DataFrame
        A row a system and link: ``system``, ``workers``, ``servers``, ``rate_mbit``, the bare step
        ``step_s`` (median over runs of their mean), ``communication_s`` and ``waiting_s`` of the
        instrumented step, ``wire_s``, what the busiest link needs at least for a step,
        ``step_ratio``, step to wire, and ``busiest_ratio``, the largest of measured to
        theoretical bytes of any host.
    """
    rows = []
    for system in systems_of(records):
        by_shape: dict[object, list[Record]] = {}
        for record in records_of_system(records, system):
            if record.ok:
                by_shape.setdefault(record.run.topology, []).append(record)
        rows += [_utilisation_row(own) for own in by_shape.values()]
    return pd.DataFrame(rows)


def _utilisation_row(records: Sequence[Record]) -> dict[str, object]:
    run = records[0].run
    frames = [steps_of(record) for record in records]
    bare = [float(f.loc[f["kind"] == "timed", "step_s"].mean()) for f in frames]
    seen = [f[f["kind"] == "instrumented"] for f in frames]
    parameters = records[0].result.parameters
    wire = nan if parameters is None else wire_time(run, parameters)
    counted = traffic(records)
    ratios = [counted[name].max() for name in ("sent_ratio", "received_ratio") if name in counted]
    return {
        "system": run.system.name,
        "workers": run.topology.workers,
        "servers": run.topology.servers,
        "rate_mbit": run.topology.link.rate_mbit,
        "runs": len(records),
        "step_s": median(bare),
        "communication_s": median([float(f["communication_s"].mean()) for f in seen]),
        "waiting_s": median([float(f["waiting_s"].mean()) for f in seen]),
        "wire_s": wire,
        "step_ratio": median(bare) / wire if wire > 0 else nan,
        "busiest_ratio": max(ratios, default=nan),
    }


def distribution_cost(records: Sequence[Record]) -> pd.DataFrame:
    """Put the measured cost of distribution beside its estimate by subtraction.

    Published studies took, for the time of the network, that of a distributed training less that
    of a single process with one worker's share of the examples. Here transfer and waiting are
    measured.

    Returns
    -------
    pandas.DataFrame
        A row a distributed system, in seconds of a worker's step: ``timed_s``; ``single_process_s``, the
        bare step of its framework's single process, NaN if there is none; ``subtraction_estimate_s`` = bare
        - twin; ``communication_s`` and ``waiting_s`` of the instrumented steps, after the backward
        pass, and ``measured_s``, their sum. ``exchange_s`` and ``overlap_s`` are the whole exchange
        of a bare step and how much of it went on beside the backward pass, by the framework's
        own clocks; NaN where it has none.
    """
    times = instrumentation_overhead(records).set_index("system")["timed_s"]
    parts = phases(records).pivot(index="system", columns="phase", values="mean_s")
    rows = []
    for system in systems_of(records):
        parsed = parse_system(system)
        if parsed.is_local:
            continue
        twin_s = float(times.get(f"{parsed.framework}/local", nan))
        own = parts.loc[system]
        measured = own[["communication", "waiting"]]
        results = [record.result for record in records if record.run.system.name == system]
        rows.append(
            {
                "system": system,
                "timed_s": times[system],
                "single_process_s": twin_s,
                "subtraction_estimate_s": times[system] - twin_s,
                "communication_s": measured["communication"],
                "waiting_s": measured["waiting"],
                "measured_s": measured.sum(min_count=1),
                "exchange_s": _mean_of_known(result.exchange_s for result in results),
                "overlap_s": _mean_of_known(result.overlap_s for result in results),
            }
        )
    return pd.DataFrame(rows)


def _mean_of_known(values: Iterable[float | None]) -> float:
    """Average what was measured; NaN if nothing was."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else nan


#: What tells one curve from another.
CURVE_COLUMNS = ["system", "servers", "batch"]


def scaling(records: Sequence[Record]) -> pd.DataFrame:
    """Follow every system over the number of workers.

    Returns
    -------
    pandas.DataFrame
        A row a system, number of servers, ``batch`` and number of ``workers``: ``batches_per_s``
        of all workers together (a worker's batch counts as one) and ``examples_per_s``, medians
        over the runs, with ``low`` and ``high`` of the latter; ``speedup`` over one worker of the
        same curve, paired by block, ``speedup_low``, ``speedup_high`` and ``efficiency`` =
        speedup / workers; ``oversubscribed``, whether the hosts together want more processors than
        there are; ``ok`` of ``planned`` runs; ``reason`` of the first that gave nothing.
        ``batch`` is each worker's (weak scaling) or, if it is the same for all numbers of
        workers, that of all together (strong).
    """
    if not records:
        return pd.DataFrame()
    table = throughput_by_run(records)
    table["workers"] = [record.run.topology.workers for record in records]
    table["servers"] = [record.run.topology.servers for record in records]
    table["oversubscribed"] = [is_oversubscribed(record) for record in records]
    table["batch"] = _batches([record.run for record in records])
    table["local_batch"] = [record.run.local_batch for record in records]
    order = {name: place for place, name in enumerate(system_order(table["system"]))}
    rows = []
    for _, curve in table.groupby(CURVE_COLUMNS, sort=False):
        alone = curve[curve["workers"] == 1].set_index("block")["examples_per_s"]
        rows += [_scaling_row(point, alone) for _, point in curve.groupby("workers")]
    found = pd.DataFrame(rows)
    found["order"] = found["system"].map(order)
    found = found.sort_values(["order", "servers", "batch", "workers"], ignore_index=True)
    return found.drop(columns="order")


def is_strong_scaling(runs: Sequence[Run]) -> bool:
    """Tell whether all workers together share the same batch, however many they are."""
    by_workers: dict[int, set[int]] = {}
    for run in runs:
        by_workers.setdefault(run.topology.workers, set()).add(run.global_batch)
    shapes = list(by_workers.values())
    return len(shapes) > 1 and all(shape == shapes[0] for shape in shapes)


def _batches(runs: Sequence[Run]) -> list[int]:
    strong = is_strong_scaling(runs)
    return [run.global_batch if strong else run.local_batch for run in runs]


def is_oversubscribed(record: Record) -> bool:
    """Tell whether the processes of a run want more processors than the machine has."""
    affinity = record.environment.get("cpu", {}).get("affinity") or []
    topology = record.run.topology
    processes = topology.workers + topology.servers
    wanted = float(processes * topology.threads)
    if topology.cpus_per_host is not None:
        wanted = min(wanted, len(topology.all_hosts) * topology.cpus_per_host)
    return bool(affinity) and wanted > len(affinity)


def _scaling_row(point: pd.DataFrame, single_worker: pd.Series) -> dict[str, object]:
    first = point.iloc[0]
    speed = median_interval(point["examples_per_s"])
    paired = point.set_index("block")["examples_per_s"]
    both = paired.index.intersection(single_worker.index)
    ratio = paired_ratio(paired.loc[both], single_worker.loc[both])
    reasons = [reason for reason in point["reason"] if reason]
    workers = int(first["workers"])
    return {
        **{name: first[name] for name in CURVE_COLUMNS},
        "workers": workers,
        "batches_per_s": speed.value / first["local_batch"],
        "examples_per_s": speed.value,
        "low": speed.low,
        "high": speed.high,
        "speedup": ratio.value if ratio.n else nan,
        "speedup_low": ratio.low if ratio.n else nan,
        "speedup_high": ratio.high if ratio.n else nan,
        "efficiency": ratio.value / workers if ratio.n else nan,
        "oversubscribed": bool(first["oversubscribed"]),
        "ok": speed.n,
        "planned": len(point),
        "reason": reasons[0] if reasons else "",
    }


STALENESS_COLUMNS = ["system", "staleness", "updates", "fraction"]


def staleness(records: Iterable[Record]) -> pd.DataFrame:
    """Count the updates of each staleness, of all runs whose updates were recorded.

    An update's staleness is the number of updates that its part of the weights has seen since
    its worker got it: 0 for every update of a worker alone, about one less than the number of
    workers where they are equally fast.

    Returns
    -------
    pandas.DataFrame
        The columns ``system``, ``staleness``, ``updates`` and ``fraction`` (of the system's), with
        a row for every staleness up to the largest.
    """
    tables = [
        record.updates().to_pandas().assign(system=record.run.system.name)
        for record in records
        if record.ok and record.run.record_updates != "none"
    ]
    if not tables:
        return pd.DataFrame(columns=STALENESS_COLUMNS)
    rows = []
    for system, own in pd.concat(tables).groupby("system", sort=False):
        counts = own["staleness"].value_counts()
        for value in range(int(own["staleness"].max()) + 1):
            count = int(counts.get(value, 0))
            rows.append((system, value, count, count / len(own)))
    return pd.DataFrame(rows, columns=STALENESS_COLUMNS)
