"""Bytes and time on the wire against theory, cost of distribution, staleness of updates.

Theoretical traffic: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH" (2005), for the ring; with a parameter server each worker sends the gradient
of every weight and receives every weight. Headers and acknowledgements are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd

from horizont.analysis.runs import (
    by_system,
    concat_tables,
    group_by,
    host_interfaces,
    interface_samples,
    run_columns,
    samples_of,
    steps_of,
    successful,
)
from horizont.analysis.steps import (
    common_window,
    instrumentation_overhead,
    means_by_run,
    phases,
    window_overlap,
)
from horizont.config.run import Run
from horizont.config.system import qualified_name
from horizont.records.record import Record

#: Bytes of a number on the wire, by compression.
NUMBER_BYTES = {"none": 4, "float16": 2}


@dataclass(frozen=True)
class Volume:
    """Bytes that a host sends and receives; NaN if unknown."""

    sent_bytes: float
    received_bytes: float


def theoretical_traffic(run: Run, parameters: float, steps: Sequence[float]) -> dict[str, Volume]:
    """Compute the bytes that each host has to send and receive; loopback traffic is not counted.

    Those of a host with one of several servers are unknown, unless the servers hold equal slices.
    `parameters` are the trainable ones of the network, `steps` those of each worker, by rank.
    """
    topology, exchange = run.topology, run.gradient_exchange
    size = float(parameters * NUMBER_BYTES[exchange.compression])
    workers = _assign_round_robin(topology.worker_hosts, topology.workers)
    servers = _assign_round_robin(topology.server_hosts, topology.servers)
    transfers: list[tuple[str, str, float]] = []
    if run.system.is_ring:
        # 2 (n - 1) / n of the gradients from each worker to the next. The ring may turn either way
        # round: a host's neighbours are the same, and so are the bytes.
        n = topology.workers
        ring_bytes = 2 * (n - 1) / n * size * min(steps) / exchange.local_steps
        transfers += [(host, workers[rank - 1], ring_bytes) for rank, host in enumerate(workers)]
    for worker, worker_steps in zip(workers, steps, strict=True):
        for server in servers:
            server_bytes = worker_steps * size / len(servers)
            transfers += [(worker, server, server_bytes), (server, worker, server_bytes)]
    sent, received = (dict.fromkeys(topology.all_hosts, 0.0) for _ in range(2))
    for source, target, transferred_bytes in transfers:
        if source != target:
            sent[source] += transferred_bytes
            received[target] += transferred_bytes
    if not run.system.info.has_equal_slices and len(set(servers)) > 1:
        # The framework decides how the weights are distributed over several servers.
        sent |= dict.fromkeys(servers, nan)
        received |= dict.fromkeys(servers, nan)
    return {host: Volume(sent[host], received[host]) for host in topology.all_hosts}


def _assign_round_robin(hosts: Sequence[str], count: int) -> list[str]:
    return [hosts[index % len(hosts)] for index in range(count)]


def _sent_parameters(record: Record) -> float:
    """Return how many parameters are exchanged in a step, NaN if that is unknown.

    It depends on the batch if only those rows of a table are sent that are looked up.
    """
    result = record.result
    is_unknown = record.run.system.info.sends_table_rows and result.table_parameters
    return nan if is_unknown or result.parameters is None else float(result.parameters)


def wire_time(run: Run, parameters: float) -> float:
    """Compute the seconds that the busiest link direction needs for a step of each worker.

    Latency is left out. Zero on links without a limit; NaN if the traffic is unknown.
    """
    link = run.topology.link
    volumes = theoretical_traffic(run, parameters, [1.0] * run.topology.workers).values()
    directions = [(link.effective_uplink_mbit, "sent_bytes"), (link.rate_mbit, "received_bytes")]
    times_s = [
        8 * getattr(volume, name) / (rate_mbit * 1e6)
        for rate_mbit, name in directions
        if rate_mbit is not None
        for volume in volumes
    ]
    return float(np.max(times_s, initial=0.0))


def traffic(records: Sequence[Record]) -> pd.DataFrame:
    """Count the bytes of a step on each host.

    One row per run and host: ``workers``, ``servers``, ``rate_mbit``, ``host``, ``sent_bytes`` and
    ``received_bytes`` per step of each worker on average, over the common window of the timed
    steps; ``sent_theory_bytes``, ``received_theory_bytes``; ``sent_ratio``, ``received_ratio`` of
    measured to theory, NaN where theory is zero or unknown. Runs whose hosts have no network
    interfaces of their own, or without a common window, have no rows.
    """
    rows = [row for record in records if record.ok for row in _traffic_rows(record)]
    columns = ["system", "block", "host", "sent_bytes", "received_bytes"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


def _traffic_rows(record: Record) -> list[dict[str, object]]:
    run, steps, samples = record.run, steps_of(record), samples_of(record)
    if not record.has("byte_counters") or samples.empty or record.result.parameters is None:
        return []
    begin_s, end_s = common_window(steps)
    steps_by_worker = steps_in_window(steps, begin_s, end_s)
    mean_steps = sum(steps_by_worker) / run.topology.workers
    # Where a chief schedules the steps, fast workers may take all of them from a slow one.
    if len(steps_by_worker) < run.topology.workers or not mean_steps > 0:
        return []
    theory = theoretical_traffic(run, _sent_parameters(record), steps_by_worker)
    wires = interface_samples(samples, host_interfaces(record))
    rows = []
    for host in run.topology.all_hosts:
        row: dict[str, object] = {
            **run_columns(record),
            "workers": run.topology.workers,
            "servers": run.topology.servers,
            "rate_mbit": run.topology.link.rate_mbit,
            "host": host,
        }
        for way in ("sent", "received"):
            own = wires[wires["host"] == host]
            measured = interpolate_counter(own, f"{way}_bytes", begin_s, end_s) / mean_steps
            expected = getattr(theory[host], f"{way}_bytes") / mean_steps
            row[f"{way}_bytes"] = measured
            row[f"{way}_theory_bytes"] = expected
            row[f"{way}_ratio"] = measured / expected if expected > 0 else nan
        rows.append(row)
    return rows


def steps_in_window(steps: pd.DataFrame, begin_s: float, end_s: float) -> list[float]:
    """Count the timed steps in a window of each worker that made any, by rank.

    A step cut by the window counts with its fraction inside.
    """
    timed = steps[steps["kind"] == "timed"]
    fractions = pd.Series(window_overlap(timed, begin_s, end_s), index=timed["worker"])
    return [float(count) for count in fractions.groupby(level=0).sum().sort_index()]


def interpolate_counter(samples: pd.DataFrame, column: str, begin_s: float, end_s: float) -> float:
    """Compute the increase of a counter between two moments, linear between two samples.

    NaN if the samples do not cover both: traffic that was not observed is not zero.
    """
    if len(samples) < 2:
        return nan
    ordered = samples.sort_values("time_s")
    times, counts = ordered["time_s"].to_numpy(float), ordered[column].to_numpy(float)
    begin, end = np.interp([begin_s, end_s], times, counts, left=nan, right=nan)
    return float(end - begin)


def link_utilisation(records: Sequence[Record]) -> pd.DataFrame:
    """Compare the step with the time that the links need at least.

    One row per system and topology: ``system``, ``workers``, ``servers``, ``rate_mbit``, ``runs``,
    the timed step ``step_s`` (median over runs of their mean), ``communication_s`` and
    ``waiting_s`` of the instrumented step, ``wire_s`` (see `wire_time`), ``step_ratio`` of step to
    wire, and ``busiest_ratio``, the largest of measured to theoretical bytes of any host.
    """
    groups = group_by(
        successful(records), lambda r: (r.run.system.name, r.run.topology.model_dump_json())
    )
    return pd.DataFrame([_utilisation_row(runs) for runs in groups.values()])


def _utilisation_row(records: Sequence[Record]) -> dict[str, object]:
    run, parameters = records[0].run, _sent_parameters(records[0])
    means = means_by_run(records).median()
    wire_s = wire_time(run, parameters)
    counted = traffic(records)
    ratios = [counted[name].max() for name in ("sent_ratio", "received_ratio") if name in counted]
    return {
        "system": run.system.name,
        "workers": run.topology.workers,
        "servers": run.topology.servers,
        "rate_mbit": run.topology.link.rate_mbit,
        "runs": len(records),
        "step_s": means["timed_s"],
        "communication_s": means["communication"],
        "waiting_s": means["waiting"],
        "wire_s": wire_s,
        "step_ratio": means["timed_s"] / wire_s if wire_s > 0 else nan,
        "busiest_ratio": max(ratios, default=nan),
    }


def distribution_cost(records: Sequence[Record]) -> pd.DataFrame:
    """Compare the measured cost of distribution with its estimate by subtraction.

    Published studies took as the network's time that of a distributed step less that of a single
    process with one worker's share of the examples. Here transfer and waiting are measured.

    One row per distributed system, in seconds of a worker's step: ``timed_s``;
    ``single_process_s``, the timed step of its framework's single process in the same variant, NaN
    if there is none;
    ``subtraction_estimate_s``, their difference; ``communication_s`` and ``waiting_s`` of the
    instrumented steps, after the backward pass, and ``measured_s``, their sum. ``exchange_s`` and
    ``overlap_s`` are the whole exchange of a timed step and its part concurrent with the backward
    pass, by the framework's own clocks; NaN where it has none.
    """
    timed_s = instrumentation_overhead(records).set_index("system")["timed_s"]
    means = phases(records).pivot(index="system", columns="phase", values="mean_s")
    rows = []
    for system, runs in by_system(records).items():
        parsed = runs[0].run.system
        if parsed.is_local:
            continue
        single = qualified_name(f"{parsed.framework}/local", parsed.variant)
        single_process_s = float(timed_s.get(single, nan))
        measured = means.loc[system, ["communication", "waiting"]]
        clocks = pd.DataFrame([(r.result.exchange_s, r.result.overlap_s) for r in runs])
        exchange_s, overlap_s = clocks.astype(float).mean()
        rows.append(
            {
                "system": system,
                "timed_s": timed_s[system],
                "single_process_s": single_process_s,
                "subtraction_estimate_s": timed_s[system] - single_process_s,
                "communication_s": measured["communication"],
                "waiting_s": measured["waiting"],
                "measured_s": measured.sum(min_count=1),
                "exchange_s": exchange_s,
                "overlap_s": overlap_s,
            }
        )
    return pd.DataFrame(rows)


def staleness(records: Iterable[Record]) -> pd.DataFrame:
    """Count the updates of each staleness, over all runs whose updates were recorded.

    The staleness of an update is the number of updates that its part of the weights has had
    since its worker pulled it: 0 for every update of a single worker, about the number of workers
    less one where they are equally fast.

    ``system``, ``workers``, ``staleness``, ``updates`` and ``fraction`` of the updates of the
    system with so many workers, one row for every staleness up to their largest.
    """
    keys = ["system", "workers"]
    updates = [
        record.updates()
        .to_pandas()
        .assign(system=record.run.system.name, workers=record.run.topology.workers)
        for record in records
        if record.ok and record.run.record_updates != "none"
    ]
    tables = []
    for _, own in concat_tables(updates, keys).groupby(keys, sort=False):
        counts = own["staleness"].value_counts()
        counts = counts.reindex(range(int(counts.index.max()) + 1), fill_value=0)
        table = counts.rename("updates").rename_axis("staleness").reset_index()
        table = table.assign(fraction=table["updates"] / len(own))
        tables.append(table.merge(own[keys].head(1), how="cross"))
    columns = [*keys, "staleness", "updates", "fraction"]
    return concat_tables(tables, columns)[columns]
