"""CPU, memory, network and processes of a run over time, and the segments of its time line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from horizont.analysis.runs import HOST_INTERFACE, concat_tables, samples_of, steps_of
from horizont.monitoring.samples import rate_of_change, read_samples
from horizont.records.files import read_events
from horizont.records.record import Record

#: The segments of a run in the order in which they usually follow each other.
SEGMENTS = ("start-up", "warmup", "timed", "instrumented", "evaluation", "profiled")

#: Quantity -> its unit.
RESOURCES = {"cpu": "%", "memory": "MiB", "network": "MiB/s", "processes": ""}

#: The name of the sum over all processes (or hosts) of a run.
TOTAL = "all"

#: Traffic directions of a machine; Linux does not count traffic by process.
DIRECTIONS = ("sent", "received")

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
        events = read_events(record.folder / "events.jsonl")
        closed_s = [line["time_s"] for line in events if line["event"] == "closed"]
        start_s = max(trained_s)
        end_s = spans["profiled"][0] if "profiled" in spans else max(closed_s, default=start_s)
        if end_s > start_s:
            spans["evaluation"] = (start_s, end_s)
    rows = [(kind, start_s - zero_s, end_s - zero_s) for kind, (start_s, end_s) in spans.items()]
    table = pd.DataFrame(rows, columns=["kind", "start_s", "end_s"])
    return table.sort_values("start_s", ignore_index=True)


def run_resource_series(record: Record) -> pd.DataFrame:
    """Build the resource series of a run, see `resource_series`; times from the first step."""
    hosts = record.run.topology.all_hosts if record.has("byte_counters") else ()
    return resource_series(samples_of(record), _time_zero(record), hosts)


def read_resource_series(folder: Path) -> pd.DataFrame:
    """Build the resource series of a run that may be running; times on the clock of its samples."""
    samples = read_samples(folder).to_pandas()
    hosts = sorted(set(samples["host"]) - {"localhost"}) if "host" in samples else []
    return resource_series(samples, 0.0, hosts)


def resource_series(
    samples: pd.DataFrame, zero_s: float, hosts: Sequence[str] = ()
) -> pd.DataFrame:
    """Build the time series of the four resources as one long table.

    ``time_s``, ``quantity`` (see `RESOURCES`), ``name`` and ``value``. The name is that of a
    process of the run, such as worker-0, or `TOTAL` for their sum. Network has ``sent`` and
    ``received`` of the machine or, for emulated hosts, the traffic of each in both directions
    (``host-0``) and the bytes that all of them sent (`TOTAL`, each byte once). CPU is in percent of
    one core. What was not measured has no row.

    Parameters
    ----------
    samples
        See :func:`horizont.monitoring.samples.read_samples`.
    zero_s
        The zero of the time axis, on the clock of the samples, in seconds.
    hosts
        Emulated hosts, whose interfaces are counted separately.
    """
    if samples.empty:
        return pd.DataFrame(columns=_SERIES_COLUMNS)
    samples = samples.assign(time_s=samples["time_s"] - zero_s).sort_values("time_s")
    process, machine = samples[samples["scope"] == "process"], samples[samples["scope"] == "host"]
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == HOST_INTERFACE)]
    if len(wires):
        wires = wires[wires["host"].isin(list(hosts))]
    cpu_percent = 100.0 * rate_of_change(process, "cpu_s", ["name", "pid"])
    tables = [
        _sum_by_name(process.assign(value=cpu_percent), "cpu"),
        _sum_by_name(process.assign(value=process["rss_bytes"] / _MIB), "memory"),
        _traffic_by_host(wires) if len(wires) else _traffic_of_machine(machine),
        # Child processes of a worker are sampled under its name and count, too.
        _sum_by_name(process.assign(value=1.0), "processes"),
    ]
    return concat_tables(tables, _SERIES_COLUMNS)[_SERIES_COLUMNS].dropna(subset="value")


def _sum_by_name(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Sum the values of a sample by name and over all names."""
    both = pd.concat([rows, rows.assign(name=TOTAL)])
    summed = both.groupby(["time_s", "name"], sort=False)["value"].sum(min_count=1)
    return summed.reset_index().assign(quantity=quantity)


def _traffic_by_host(wires: pd.DataFrame) -> pd.DataFrame:
    """Compute the traffic of each emulated host, and what all of them sent."""
    wires = wires.assign(both_bytes=wires["sent_bytes"] + wires["received_bytes"])
    by_host = wires.assign(
        value=rate_of_change(wires, "both_bytes", ["host"]) / _MIB, name=wires["host"]
    )
    sent = wires.assign(value=rate_of_change(wires, "sent_bytes", ["host"]) / _MIB)
    total = sent.groupby("time_s", sort=False)["value"].sum(min_count=1).reset_index()
    return pd.concat([by_host, total.assign(name=TOTAL)]).assign(quantity="network")


def _traffic_of_machine(machine: pd.DataFrame) -> pd.DataFrame:
    tables = [
        machine.assign(name=way, value=rate_of_change(machine, f"{way}_bytes", ["scope"]) / _MIB)
        for way in DIRECTIONS
        if f"{way}_bytes" in machine
    ]
    return pd.concat(tables).assign(quantity="network") if tables else pd.DataFrame()


def label_processes(samples: pd.DataFrame, max_labelled: int = 6) -> pd.DataFrame:
    """Name the busiest processes of a tree ``process-0``, ... in their order of appearance.

    Processes beyond `max_labelled` share the name ``others``.
    """
    process = samples[samples["scope"] == "process"]
    used_s = process.groupby("pid")["cpu_s"].max().sort_values(ascending=False, kind="stable")
    busiest = set(used_s.index[:max_labelled])
    order = [pid for pid in process["pid"].drop_duplicates() if pid in busiest]
    names = {pid: f"process-{index}" for index, pid in enumerate(order)}
    labels = samples["pid"].map(names).fillna("others")
    return samples.assign(name=samples["name"].where(samples["scope"] != "process", labels))


def resource_totals(record: Record) -> pd.DataFrame:
    """Compute mean CPU and peak memory of each process of a run, and of all together.

    ``name``, ``cpu_mean`` (percent of a core) and ``memory_max`` (MiB) from the start of the first
    step to the end of the last one.
    """
    table, parts = run_resource_series(record), segments(record)
    parts = parts[parts["kind"] != "evaluation"]
    if table.empty or parts.empty:
        return pd.DataFrame(columns=["name", "cpu_mean", "memory_max"])
    training = table[table["time_s"].between(0.0, parts["end_s"].max())]
    cpu = training[training["quantity"] == "cpu"].groupby("name")["value"].mean()
    memory = training[training["quantity"] == "memory"].groupby("name")["value"].max()
    totals = pd.DataFrame({"cpu_mean": cpu, "memory_max": memory}).rename_axis("name").reset_index()
    return totals.sort_values("name", key=lambda names: names.eq(TOTAL), kind="stable")
