"""What a run was doing when: start-up, the kinds of steps, evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from horizont.analysis.runs import HOST_INTERFACE, samples_of, steps_of
from horizont.monitoring.samples import rate_of_change
from horizont.records.files import read_events
from horizont.records.record import Record

#: The segments of a run in the order in which they usually follow each other.
SEGMENTS = ("start-up", "warmup", "timed", "instrumented", "evaluation", "profiled")

_SEGMENT_COLUMNS = ["kind", "start_s", "end_s"]


def time_zero(record: Record) -> float:
    """Find the zero of the time axis: the start of the first step, else the first sample."""
    steps, samples = steps_of(record), samples_of(record)
    first = steps["start_s"].min() if len(steps) else samples["time_s"].min()
    return float(first)


def segments(record: Record) -> pd.DataFrame:
    """List the segments of a run.

    Returns
    -------
    pandas.DataFrame
        ``kind`` (one of `SEGMENTS`), ``start_s``, ``end_s``, in seconds from the first step. A
        segment lasts from its first worker's start to its last worker's end; start-up begins
        with the first sample, evaluation ends with the first profiled step, or when the last
        process that trained has closed.
    """
    samples, zero_s = samples_of(record), time_zero(record)
    rows = []
    if len(samples) and samples["time_s"].min() < zero_s:
        rows.append({"kind": "start-up", "start_s": samples["time_s"].min() - zero_s, "end_s": 0.0})
    rows += step_segments(steps_of(record), zero_s)
    if record.run.evaluate_examples:
        events = read_events(record.folder / "events.jsonl")
        closed_s = [line["time_s"] - zero_s for line in events if line["event"] == "closed"]
        rows += evaluation_segment(rows, closed_s)
    table = pd.DataFrame(rows, columns=_SEGMENT_COLUMNS)
    return table.sort_values("start_s", ignore_index=True)


def step_segments(steps: pd.DataFrame, zero_s: float) -> list[dict[str, Any]]:
    """List the segments that the kinds of steps make, in seconds from `zero_s`."""
    ends = steps.assign(end_s=steps["start_s"] + steps["step_s"])
    return [
        {
            "kind": str(kind),
            "start_s": float(own["start_s"].min() - zero_s),
            "end_s": float(own["end_s"].max() - zero_s),
        }
        for kind, own in ends.groupby("kind", sort=False)
    ]


def evaluation_segment(
    preceding: list[dict[str, Any]], closed_s: Sequence[float]
) -> list[dict[str, Any]]:
    """Find the time from the last step of the training to the first profiled one, or the end.

    Parameters
    ----------
    before
        The segments that the steps make.
    closed_s
        When each process that trained has closed, in seconds of the same axis.
    """
    trained = [row["end_s"] for row in preceding if row["kind"] != "profiled"]
    if not trained:
        return []
    start_s = max(trained)
    profiled = [row["start_s"] for row in preceding if row["kind"] == "profiled"]
    end_s = min(profiled, default=max(closed_s, default=start_s))
    return [{"kind": "evaluation", "start_s": start_s, "end_s": end_s}] if end_s > start_s else []


#: The four charts: quantity -> its unit.
RESOURCES = {"cpu": "%", "memory": "MiB", "network": "MiB/s", "processes": ""}

#: The name under which all processes (or hosts) of a run stand together.
TOTAL = "all"

#: What a machine sent and received; Linux does not count it by process.
DIRECTIONS = ("sent", "received")

_MIB = 2.0**20
_SERIES_COLUMNS = ["time_s", "quantity", "name", "value"]


def run_resource_series(record: Record) -> pd.DataFrame:
    """Build the four charts of a run as one long table.

    Returns
    -------
    pandas.DataFrame
        As of `charts`, ``time_s`` being from the first step.
    """
    samples = samples_of(record)
    if samples.empty:
        return pd.DataFrame(columns=_SERIES_COLUMNS)
    topology = record.run.topology
    return resource_series(
        samples, time_zero(record), topology.all_hosts if topology.is_emulated else ()
    )


def resource_series(
    samples: pd.DataFrame, zero_s: float, hosts: Sequence[str] = ()
) -> pd.DataFrame:
    """Build the four charts of some samples as one long table.

    Parameters
    ----------
    samples
        As `horizont.monitoring.read_samples` reads them.
    zero_s
        The zero of the time axis, on the clock of the samples, in seconds.
    hosts
        Emulated hosts whose wires are counted apart.

    Returns
    -------
    pandas.DataFrame
        ``time_s``, ``quantity`` (see `RESOURCES`), ``name`` and ``value``. The name is that of a
        process of the run, such as worker-0, or `WHOLE` for all of them together; of the network
        ``sent`` and ``received`` by the machine, or, of emulated hosts, what each sent and
        received together (``host-0``) and what all of them sent (`WHOLE`, each byte once). CPU
        is in percent of one core. What was not measured has no row.
    """
    if samples.empty:
        return pd.DataFrame(columns=_SERIES_COLUMNS)
    samples = samples.assign(time_s=samples["time_s"] - zero_s).sort_values("time_s")
    process, host = samples[samples["scope"] == "process"], samples[samples["scope"] == "host"]
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == HOST_INTERFACE)]
    own = wires[wires["host"].isin(list(hosts))] if len(wires) else wires
    network = _traffic_by_host(own) if len(own) else _traffic_of_machine(host)
    tables = [_cpu(process), _memory(process), network, _processes(process)]
    filled = [table for table in tables if len(table)]
    if not filled:
        return pd.DataFrame(columns=_SERIES_COLUMNS)
    return pd.concat(filled, ignore_index=True)[_SERIES_COLUMNS].dropna(subset="value")


def label_processes(samples: pd.DataFrame, max_labelled: int = 6) -> pd.DataFrame:
    """Name the processes of a tree apart: the busiest by their order of appearance.

    Parameters
    ----------
    most
        How many have a name of their own (``process-0``); the rest are ``others``.
    """
    own = samples[samples["scope"] == "process"]
    used_s = own.groupby("pid")["cpu_s"].max().sort_values(ascending=False, kind="stable")
    busiest = set(used_s.index[:max_labelled])
    order = [pid for pid in own["pid"].drop_duplicates() if pid in busiest]
    names = {pid: f"process-{place}" for place, pid in enumerate(order)}
    return samples.assign(
        name=samples["name"].where(
            samples["scope"] != "process", samples["pid"].map(names).fillna("others")
        )
    )


def _cpu(process: pd.DataFrame) -> pd.DataFrame:
    """Turn each process's processor seconds into percent of a core, added up by name."""
    each = process.groupby(["name", "pid"]).ngroup()
    percent = 100.0 * _rate(process, "cpu_s", each)
    return _sum_by_name(process.assign(value=percent), "cpu")


def _memory(process: pd.DataFrame) -> pd.DataFrame:
    return _sum_by_name(process.assign(value=process["rss_bytes"] / _MIB), "memory")


def _processes(process: pd.DataFrame) -> pd.DataFrame:
    """Count the live processes of the run, helpers that a worker started among them."""
    return _sum_by_name(process.assign(value=1.0), "processes")


def _rate(rows: pd.DataFrame, column: str, group: pd.Series) -> npt.NDArray[np.float64]:
    """Tell how fast a counter of each thing, told apart by numbers, grew; NaN where it fell."""
    numbers = (rows[name].to_numpy(float) for name in ("time_s", column))
    return rate_of_change(group.to_numpy(np.int64), *numbers)


def _sum_by_name(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Add the values of a sample up, by name and over all names."""
    both = pd.concat([rows, rows.assign(name=TOTAL)])
    summed = both.groupby(["time_s", "name"], sort=False)["value"].sum(min_count=1)
    return summed.reset_index().assign(quantity=quantity)


def _traffic_by_host(wires: pd.DataFrame) -> pd.DataFrame:
    """Add up what each emulated host sent and received, and what all of them sent."""
    wires = wires.assign(both=wires["sent_bytes"] + wires["received_bytes"])
    hosts = wires.groupby("host").ngroup()
    each = wires.assign(value=_rate(wires, "both", hosts) / _MIB, name=wires["host"])
    sent = wires.assign(value=_rate(wires, "sent_bytes", hosts) / _MIB)
    whole = sent.groupby("time_s", sort=False)["value"].sum(min_count=1).reset_index()
    return pd.concat([each, whole.assign(name=TOTAL)]).assign(quantity="network")


def _traffic_of_machine(host: pd.DataFrame) -> pd.DataFrame:
    whole = pd.Series(0, index=host.index)
    tables = [
        pd.DataFrame(
            {
                "time_s": host["time_s"],
                "name": way,
                "value": _rate(host, f"{way}_bytes", whole) / _MIB,
            }
        )
        for way in DIRECTIONS
        if f"{way}_bytes" in host
    ]
    if not tables:
        return pd.DataFrame()
    return pd.concat(tables).assign(quantity="network")


def resource_totals(record: Record) -> pd.DataFrame:
    """Sum a run's resources up: a row a process, and one for all of them.

    Returns
    -------
    pandas.DataFrame
        ``name``, ``cpu_mean`` (percent of a core) and ``memory_max`` (MiB) while steps were
        made, that is from time zero to the end of the last step.
    """
    table, parts = run_resource_series(record), segments(record)
    parts = parts[parts["kind"] != "evaluation"]
    columns = ["name", "cpu_mean", "memory_max"]
    if table.empty or parts.empty:
        return pd.DataFrame(columns=columns)
    during = table[table["time_s"].between(0.0, parts["end_s"].max())]
    cpu = during[during["quantity"] == "cpu"].groupby("name")["value"].mean()
    memory = during[during["quantity"] == "memory"].groupby("name")["value"].max()
    joined = pd.DataFrame({"cpu_mean": cpu, "memory_max": memory})
    joined = joined.rename_axis("name").reset_index()[columns]
    return joined.sort_values("name", key=lambda names: names.eq(TOTAL), kind="stable")
