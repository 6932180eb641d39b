"""What the processes of a run used, each and all together, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from horizont.analysis.frames import WIRE, samples_of
from horizont.analysis.segments import begin_of, segments
from horizont.measure.samples import rate_of_change
from horizont.records import Record

#: The four charts: quantity -> its unit.
RESOURCES = {"cpu": "%", "memory": "MiB", "network": "MiB/s", "processes": ""}

#: The name under which all processes (or hosts) of a run stand together.
WHOLE = "all"

#: What a machine sent and received; Linux does not count it by process.
WAYS = ("sent", "received")

_MIB = 2.0**20
_COLUMNS = ["time_s", "quantity", "name", "value"]


def resources(record: Record) -> pd.DataFrame:
    """Build the four charts of a run as one long table.

    Returns
    -------
    pandas.DataFrame
        As of `charts`, ``time_s`` being from the first step.
    """
    samples = samples_of(record)
    if samples.empty:
        return pd.DataFrame(columns=_COLUMNS)
    topology = record.run.topology
    return charts(samples, begin_of(record), topology.all_hosts if topology.is_emulated else ())


def charts(samples: pd.DataFrame, zero_s: float, hosts: Sequence[str] = ()) -> pd.DataFrame:
    """Build the four charts of some samples as one long table.

    Parameters
    ----------
    samples
        As `horizont.measure.read_samples` reads them.
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
        return pd.DataFrame(columns=_COLUMNS)
    samples = samples.assign(time_s=samples["time_s"] - zero_s).sort_values("time_s")
    process, host = samples[samples["scope"] == "process"], samples[samples["scope"] == "host"]
    wires = samples[(samples["scope"] == "interface") & (samples["name"] == WIRE)]
    own = wires[wires["host"].isin(list(hosts))] if len(wires) else wires
    network = _by_host(own) if len(own) else _network(host)
    tables = [_cpu(process), _memory(process), network, _processes(process)]
    filled = [table for table in tables if len(table)]
    if not filled:
        return pd.DataFrame(columns=_COLUMNS)
    return pd.concat(filled, ignore_index=True)[_COLUMNS].dropna(subset="value")


def by_process(samples: pd.DataFrame, most: int = 6) -> pd.DataFrame:
    """Name the processes of a tree apart: the busiest by their order of appearance.

    Parameters
    ----------
    most
        How many have a name of their own (``process-0``); the rest are ``others``.
    """
    own = samples[samples["scope"] == "process"]
    used_s = own.groupby("pid")["cpu_s"].max().sort_values(ascending=False, kind="stable")
    busiest = set(used_s.index[:most])
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
    return _summed(process.assign(value=percent), "cpu")


def _memory(process: pd.DataFrame) -> pd.DataFrame:
    return _summed(process.assign(value=process["rss_bytes"] / _MIB), "memory")


def _processes(process: pd.DataFrame) -> pd.DataFrame:
    """Count the live processes of the run, helpers that a worker started among them."""
    return _summed(process.assign(value=1.0), "processes")


def _rate(rows: pd.DataFrame, column: str, thing: pd.Series) -> npt.NDArray[np.float64]:
    """Tell how fast a counter of each thing, told apart by numbers, grew; NaN where it fell."""
    numbers = (rows[name].to_numpy(float) for name in ("time_s", column))
    return rate_of_change(thing.to_numpy(np.int64), *numbers)


def _summed(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Add the values of a sample up, by name and over all names."""
    both = pd.concat([rows, rows.assign(name=WHOLE)])
    summed = both.groupby(["time_s", "name"], sort=False)["value"].sum(min_count=1)
    return summed.reset_index().assign(quantity=quantity)


def _by_host(wires: pd.DataFrame) -> pd.DataFrame:
    """Add up what each emulated host sent and received, and what all of them sent."""
    wires = wires.assign(both=wires["sent_bytes"] + wires["received_bytes"])
    hosts = wires.groupby("host").ngroup()
    each = wires.assign(value=_rate(wires, "both", hosts) / _MIB, name=wires["host"])
    sent = wires.assign(value=_rate(wires, "sent_bytes", hosts) / _MIB)
    whole = sent.groupby("time_s", sort=False)["value"].sum(min_count=1).reset_index()
    return pd.concat([each, whole.assign(name=WHOLE)]).assign(quantity="network")


def _network(host: pd.DataFrame) -> pd.DataFrame:
    whole = pd.Series(0, index=host.index)
    tables = [
        pd.DataFrame(
            {
                "time_s": host["time_s"],
                "name": way,
                "value": _rate(host, f"{way}_bytes", whole) / _MIB,
            }
        )
        for way in WAYS
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
    table, parts = resources(record), segments(record)
    parts = parts[parts["kind"] != "evaluation"]
    columns = ["name", "cpu_mean", "memory_max"]
    if table.empty or parts.empty:
        return pd.DataFrame(columns=columns)
    during = table[table["time_s"].between(0.0, parts["end_s"].max())]
    cpu = during[during["quantity"] == "cpu"].groupby("name")["value"].mean()
    memory = during[during["quantity"] == "memory"].groupby("name")["value"].max()
    joined = pd.DataFrame({"cpu_mean": cpu, "memory_max": memory})
    joined = joined.rename_axis("name").reset_index()[columns]
    return joined.sort_values("name", key=lambda names: names.eq(WHOLE), kind="stable")
