"""CPU, memory, network and processes of a run over time, and the segments of its time line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from horizont.analysis.runs import (
    HOST_INTERFACE,
    concat_tables,
    host_interfaces,
    interface_samples,
    samples_of,
    steps_of,
)
from horizont.analysis.steps import common_window
from horizont.config.topology import DEFAULT_LAUNCHER
from horizont.monitoring.samples import rate_of_change, read_samples
from horizont.records.record import Record

#: The segments of a run in the order in which they usually follow each other.
SEGMENTS = ("start-up", "warmup", "timed", "instrumented", "evaluation", "profiled")

#: Quantity -> its unit; those of GPUs only of runs on them.
RESOURCES = {"cpu": "%", "memory": "MiB", "network": "MiB/s", "processes": ""}
GPU_RESOURCES = {"gpu": "%", "gpu_memory": "MiB"}

#: The name of the sum over all processes (or hosts) of a run.
TOTAL = "all"

#: Traffic directions of a machine; Linux does not count traffic by process.
DIRECTIONS = ("sent", "received")

#: Processes of a tree that have a name of their own.
MAX_LABELLED = 6

#: In a shorter window the CPU time of a few steps decides, and that between two samples.
MIN_WINDOW_S = 2.0
WINDOW_TOO_SHORT = "window too short"

_ROLE_AND_RANK = re.compile(r"(?P<role>[a-z]+)-(?P<rank>\d+)")
_MIB = 2.0**20
_SERIES_COLUMNS = ["time_s", "quantity", "name", "value"]


def _time_zero(record: Record) -> float:
    """Return the zero of the time axis: the start of the first step, else the first sample."""
    steps, samples = steps_of(record), samples_of(record)
    return float(steps["start_s"].min() if len(steps) else samples["time_s"].min())


def segments(record: Record) -> pd.DataFrame:
    """List the segments of a run.

    ``kind`` (one of `SEGMENTS`), ``start_s``, ``end_s``, in seconds from the first step. A segment
    lasts from its first worker's start to its last worker's end; start-up begins with the first
    sample, evaluation ends with the first profiled step or, without one, when the last training
    process has closed.
    """
    samples, zero_s = samples_of(record), _time_zero(record)
    steps = steps_of(record)
    ends = steps.assign(end_s=steps["start_s"] + steps["step_s"]).groupby("kind", sort=False)
    # On the clock of the run.
    spans = {str(kind): (rows["start_s"].min(), rows["end_s"].max()) for kind, rows in ends}
    if len(samples) and samples["time_s"].min() < zero_s:
        spans = {"start-up": (samples["time_s"].min(), zero_s), **spans}
    trained_s = [end_s for kind, (_, end_s) in spans.items() if kind != "profiled"]
    if record.run.evaluation.examples and trained_s:
        closed_s = [line["time_s"] for line in record.events() if line["event"] == "closed"]
        start_s = max(trained_s)
        end_s = spans["profiled"][0] if "profiled" in spans else max(closed_s, default=start_s)
        if end_s > start_s:
            spans["evaluation"] = (start_s, end_s)
    rows = [(kind, start_s - zero_s, end_s - zero_s) for kind, (start_s, end_s) in spans.items()]
    table = pd.DataFrame(rows, columns=["kind", "start_s", "end_s"])
    return table.sort_values("start_s", ignore_index=True)


def run_resource_series(record: Record) -> pd.DataFrame:
    """Build the resource series of a run, see `resource_series`; times from the first step."""
    return resource_series(samples_of(record), _time_zero(record), host_interfaces(record))


def read_resource_series(folder: Path) -> pd.DataFrame:
    """Build the resource series of a run that may be running; times on the clock of its samples."""
    samples = read_samples(folder).to_pandas()
    hosts = sorted(set(samples["host"]) - {"localhost"}) if "host" in samples else []
    return resource_series(samples, 0.0, dict.fromkeys(hosts, HOST_INTERFACE))


def resource_series(
    samples: pd.DataFrame, zero_s: float, interfaces: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Build the time series of all resources as one long table, from `read_samples`.

    ``time_s``, ``quantity`` (see `RESOURCES`, `GPU_RESOURCES`), ``name`` and ``value``. The name
    is that of a process of the run, such as worker-0, or `TOTAL` for their sum. Network has
    ``sent`` and ``received`` of the machine or, for hosts with `interfaces` of their own, the
    traffic of each in both directions (``host-0``) and, if one sampler samples all, the bytes that
    all of them sent (`TOTAL`, each byte once). CPU is in percent of one core. What was not
    measured has no row. `zero_s` is the zero of the time axis, on the clock of the samples.
    """
    if samples.empty:
        return pd.DataFrame(columns=_SERIES_COLUMNS)
    samples = samples.assign(time_s=samples["time_s"] - zero_s).sort_values("time_s")
    process, machine = samples[samples["scope"] == "process"], samples[samples["scope"] == "host"]
    wires = interface_samples(samples, interfaces or {})
    cpu_percent = 100.0 * rate_of_change(process, "cpu_s", ["name", "pid"])
    tables = [
        _sum_by_name(process.assign(value=cpu_percent), "cpu"),
        _sum_by_name(process.assign(value=process["rss_bytes"] / _MIB), "memory"),
        _traffic_by_host(wires) if len(wires) else _traffic_of_machine(machine),
        # Child processes of a worker are sampled under its name and count, too.
        _sum_by_name(process.assign(value=1.0), "processes"),
    ]
    device = samples[samples["scope"] == "device"]
    if len(device):
        busy, memory = 100.0 * device["device_busy"], device["device_memory_bytes"] / _MIB
        tables.append(_sum_by_name(device.assign(value=busy), "gpu"))
        tables.append(_sum_by_name(device.assign(value=memory), "gpu_memory"))
    return concat_tables(tables, _SERIES_COLUMNS)[_SERIES_COLUMNS].dropna(subset="value")


def _has_several_hosts(rows: pd.DataFrame) -> bool:
    return "host" in rows and rows["host"].nunique() > 1


def _sum_by_name(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Sum the values of a sample by name and over all names.

    Machines of a cluster are sampled at times of their own, so there is no sum over them.
    """
    both = rows if _has_several_hosts(rows) else pd.concat([rows, rows.assign(name=TOTAL)])
    summed = both.groupby(["time_s", "name"], sort=False)["value"].sum(min_count=1)
    return summed.reset_index().assign(quantity=quantity)


def _traffic_by_host(wires: pd.DataFrame) -> pd.DataFrame:
    """Compute the traffic of each host and, if they were sampled together, what all sent."""
    wires = wires.assign(both_bytes=wires["sent_bytes"] + wires["received_bytes"])
    rates = {
        name: rate_of_change(wires, f"{name}_bytes", ["host"]) / _MIB for name in ("both", "sent")
    }
    by_host = wires.assign(value=rates["both"], name=wires["host"])
    if wires.groupby("time_s")["host"].nunique().max() < wires["host"].nunique():
        return by_host.assign(quantity="network")
    sent = rates["sent"].groupby(wires["time_s"], sort=False).sum(min_count=1)
    total = sent.rename("value").reset_index().assign(name=TOTAL)
    return pd.concat([by_host, total]).assign(quantity="network")


def _traffic_of_machine(machine: pd.DataFrame) -> pd.DataFrame:
    several = _has_several_hosts(machine)
    hosts, series = (machine["host"] + " ", "host") if several else ("", "scope")
    tables = [
        machine.assign(
            name=hosts + way, value=rate_of_change(machine, f"{way}_bytes", [series]) / _MIB
        )
        for way in DIRECTIONS
        if f"{way}_bytes" in machine
    ]
    return pd.concat(tables).assign(quantity="network") if tables else pd.DataFrame()


def label_processes(samples: pd.DataFrame) -> pd.DataFrame:
    """Name the busiest processes of a tree ``process-0``, ... in their order of appearance.

    Processes beyond `MAX_LABELLED` share the name ``others``.
    """
    process = samples[samples["scope"] == "process"]
    used_s = process.groupby("pid")["cpu_s"].max().sort_values(ascending=False, kind="stable")
    busiest = set(used_s.index[:MAX_LABELLED])
    order = [pid for pid in process["pid"].drop_duplicates() if pid in busiest]
    names = {pid: f"process-{index}" for index, pid in enumerate(order)}
    labels = samples["pid"].map(names).fillna("others")
    return samples.assign(name=samples["name"].where(samples["scope"] != "process", labels))


def resource_totals(record: Record) -> pd.DataFrame:
    """Compute CPU and peak memory of each process of a run, of each host, and of all.

    One row each: ``name`` of the process, of the host, or `TOTAL`; the ``host`` it is or is on;
    ``cpu_mean``, percent of a core, and ``memory_max``, MiB; ``note``, why there is no CPU;
    ``gpu_mean``, percent of its GPU, and ``gpu_memory_max``, MiB, if it has one.

    CPU is the increase of the counters between the ends of the common window of the timed steps,
    divided by its length: warm-up, waiting for the start, and evaluation are not part of it. There
    is none if the window was shorter than `MIN_WINDOW_S`. That of a host is the sum over its
    processes. Memory is the highest sum at one moment from the first step to the last.
    """
    samples, steps, parts = samples_of(record), steps_of(record), segments(record)
    parts = parts[parts["kind"] != "evaluation"]
    device, samples = (samples[samples["scope"] == scope] for scope in ("device", "process"))
    columns = ["name", "host", "cpu_mean", "memory_max", "gpu_mean", "gpu_memory_max", "note"]
    if samples.empty or steps.empty or parts.empty:
        return pd.DataFrame(columns=columns)
    zero_s = _time_zero(record)
    training = samples[samples["time_s"].between(zero_s, zero_s + parts["end_s"].max())]
    begin_s, end_s = common_window(steps)
    is_short = not end_s - begin_s >= MIN_WINDOW_S
    names = sorted(map(str, samples["name"].unique()))
    host_of = {name: process_host(name, record) for name in names}
    hosts = [host for host in record.run.topology.all_hosts if host in host_of.values()]
    groups = [
        *((name, host_of[name], [name]) for name in names),
        *((host, host, [name for name in names if host_of[name] == host]) for host in hosts),
        (TOTAL, None, names),
    ]
    rows = []
    for name, host, members in groups:
        cores = [_cores_in_use(samples[samples["name"] == one], begin_s, end_s) for one in members]
        memory = training[training["name"].isin(members)].groupby("time_s")["rss_bytes"]
        gpu = device[device["name"].isin(members)]
        in_window = gpu[gpu["time_s"].between(begin_s, end_s)]
        rows.append(
            {
                "name": name,
                "host": host,
                "cpu_mean": nan if is_short else 100.0 * sum(cores),
                "memory_max": memory.sum(min_count=1).max() / _MIB,
                "gpu_mean": 100.0 * in_window["device_busy"].mean() if len(gpu) else nan,
                "gpu_memory_max": gpu["device_memory_bytes"].max() / _MIB if len(gpu) else nan,
                "note": WINDOW_TOO_SHORT if is_short else None,
            }
        )
    return pd.DataFrame(rows, columns=columns)


def peak_memory_mib(record: Record) -> float:
    """Return the peak memory of all processes of a run together; NaN if it was not sampled."""
    return float(resource_totals(record).set_index("name")["memory_max"].get(TOTAL, nan))


def process_host(name: str, record: Record) -> str | None:
    """Return the host of a process by its name; None if the run has no hosts but this machine.

    Hosts are assigned to the ranks of a role in turn, as the launcher does. The samples do not say
    it: those of emulated hosts are taken by this machine.
    """
    topology = record.run.topology
    found = _ROLE_AND_RANK.match(name)
    if found is None or topology.launcher == DEFAULT_LAUNCHER:
        return None
    hosts = topology.worker_hosts if found["role"] == "worker" else topology.server_hosts
    return hosts[int(found["rank"]) % len(hosts)]


def _cores_in_use(samples: pd.DataFrame, begin_s: float, end_s: float) -> float:
    """Compute the mean use of CPUs in a window by the processes of one name.

    NaN if they were sampled in less than `MIN_WINDOW_S` of it. A helper process counts from its
    first sample to its last.
    """
    known = samples.dropna(subset="cpu_s").sort_values("time_s")
    begin_s = max(begin_s, known["time_s"].min())
    end_s = min(end_s, known["time_s"].max())
    if not end_s - begin_s >= MIN_WINDOW_S:
        return nan
    used_s = 0.0
    for _, own in known.groupby("pid"):
        counts = np.interp([begin_s, end_s], own["time_s"], own["cpu_s"])
        used_s += float(counts[1] - counts[0])
    return used_s / (end_s - begin_s)
