"""What the processes of a run used, on one time axis with what the run was doing."""

from __future__ import annotations

import pandas as pd

from horizont.analysis.frames import WIRE, samples_of, steps_of
from horizont.records import Record

#: The four charts: quantity -> its unit.
RESOURCES = {"cpu": "%", "memory": "MiB", "network": "MiB/s", "processes": ""}

_MIB = 2.0**20


def begin_of(record: Record) -> float:
    """Find the zero of the time axis: the start of the first step, else the first sample."""
    steps, samples = steps_of(record), samples_of(record)
    first = steps["start_s"].min() if len(steps) else samples["time_s"].min()
    return float(first)


def segments(record: Record) -> pd.DataFrame:
    """List the segments of a run.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (start-up, warmup, bare, instrumented), ``start_s``, ``end_s``, in seconds from
        the first step. A segment lasts from its first worker's start to its last worker's end;
        start-up begins with the first sample.
    """
    steps, samples = steps_of(record), samples_of(record)
    zero_s = begin_of(record)
    rows = []
    if len(samples) and samples["time_s"].min() < zero_s:
        rows.append({"kind": "start-up", "start_s": samples["time_s"].min() - zero_s, "end_s": 0.0})
    ends = steps.assign(end_s=steps["start_s"] + steps["step_s"])
    for kind, own in ends.groupby("kind", sort=False):
        start_s, end_s = own["start_s"].min() - zero_s, own["end_s"].max() - zero_s
        rows.append({"kind": str(kind), "start_s": float(start_s), "end_s": float(end_s)})
    table = pd.DataFrame(rows, columns=["kind", "start_s", "end_s"])
    return table.sort_values("start_s", ignore_index=True)


def resources(record: Record) -> pd.DataFrame:
    """Build the four charts of a run as one long table.

    Returns
    -------
    pandas.DataFrame
        ``time_s`` (from the first step), ``quantity`` (see `RESOURCES`), ``name`` (a process of
        the run such as worker-0, ``sent`` and ``received`` of the machine, or what each emulated
        host sent and received together, ``host-0``; ``all`` processes), ``value``. CPU is in
        percent of one core. Network is counted by host: Linux does not count it by process. What
        was not measured has no row.
    """
    samples = samples_of(record)
    columns = ["time_s", "quantity", "name", "value"]
    if samples.empty:
        return pd.DataFrame(columns=columns)
    samples = samples.assign(time_s=samples["time_s"] - begin_of(record)).sort_values("time_s")
    process, host = samples[samples["scope"] == "process"], samples[samples["scope"] == "host"]
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == WIRE)]
    own = wires[wires["host"].isin(record.run.topology.all_hosts)] if len(wires) else wires
    network = _by_host(own) if len(own) else _network(host)
    tables = [_cpu(process), _memory(process), network, _processes(process)]
    table = pd.concat([t for t in tables if len(t)], ignore_index=True)
    return table[columns].dropna(subset="value")


def _cpu(process: pd.DataFrame) -> pd.DataFrame:
    """Turn each process's processor seconds into percent of a core, added up by name."""
    by_process = process.groupby(["name", "pid"])
    percent = 100.0 * by_process["cpu_s"].diff() / by_process["time_s"].diff()
    return _by_name(process.assign(value=percent), "cpu")


def _memory(process: pd.DataFrame) -> pd.DataFrame:
    return _by_name(process.assign(value=process["rss_bytes"] / _MIB), "memory")


def _processes(process: pd.DataFrame) -> pd.DataFrame:
    """Count the live processes of the run, helpers that a worker started among them."""
    return _by_name(process.assign(value=1.0, name="all"), "processes")


def _by_name(process: pd.DataFrame, quantity: str) -> pd.DataFrame:
    summed = process.groupby(["time_s", "name"], sort=False)["value"].sum(min_count=1)
    return summed.reset_index().assign(quantity=quantity)


def _by_host(wires: pd.DataFrame) -> pd.DataFrame:
    """Add up what each emulated host sent and received."""
    both = wires["sent_bytes"] + wires["received_bytes"]
    by_host = wires.assign(both=both).groupby("host")
    rate = by_host["both"].diff() / _MIB / by_host["time_s"].diff()
    return wires.assign(value=rate, name=wires["host"], quantity="network")


def _network(host: pd.DataFrame) -> pd.DataFrame:
    tables = [
        pd.DataFrame(
            {
                "time_s": host["time_s"],
                "name": way,
                "value": host[f"{way}_bytes"].diff() / _MIB / host["time_s"].diff(),
            }
        )
        for way in ("sent", "received")
        if f"{way}_bytes" in host
    ]
    if not tables:
        return pd.DataFrame()
    return pd.concat(tables).assign(quantity="network")


def resource_totals(record: Record) -> pd.DataFrame:
    """Sum a run's resources up: a row a process.

    Returns
    -------
    pandas.DataFrame
        ``name``, ``cpu_mean`` (percent of a core) and ``memory_max`` (MiB) while steps were
        made, that is from time zero to the end of the last step.
    """
    table, parts = resources(record), segments(record)
    columns = ["name", "cpu_mean", "memory_max"]
    if table.empty or parts.empty:
        return pd.DataFrame(columns=columns)
    during = table[table["time_s"].between(0.0, parts["end_s"].max())]
    cpu = during[during["quantity"] == "cpu"].groupby("name")["value"].mean()
    memory = during[during["quantity"] == "memory"].groupby("name")["value"].max()
    joined = pd.DataFrame({"cpu_mean": cpu, "memory_max": memory})
    return joined.rename_axis("name").reset_index()[columns]
