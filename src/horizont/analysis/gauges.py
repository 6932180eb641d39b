"""What the hosts and processes of a run use at the newest sample."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.analysis.runs import HOST_INTERFACE

_MIB = 2.0**20

#: The stages of a process, by the event that each begins with.
STAGES = {
    "started": "starting",
    "spawned": "starting",
    "interpreter": "loading the framework",
    "framework": "loading data",
    "data": "building the network",
    "network": "first step",
    "first_step": "training",
    "trained": "evaluating",
    "evaluated": "profiling",
    "closed": "done",
    "error": "error",
}


def stages(events: Sequence[Mapping[str, Any]], serving: Collection[str] = ()) -> dict[str, str]:
    """Tell the stage of each process from its newest event.

    Parameters
    ----------
    serving
        Roles that only serve once their framework is loaded.
    """
    found: dict[str, str] = {}
    for line in sorted(events, key=lambda line: float(line["time_s"])):
        name, stage = line.get("process"), STAGES.get(line["event"])
        if name and stage:
            serves = name.rpartition("-")[0] in serving and line["event"] == "framework"
            found[name] = "serving" if serves else stage
    return found


def process_gauges(rated: pd.DataFrame, *, over: bool = False) -> pd.DataFrame:
    """Tell what each process uses, helpers that it started included.

    Parameters
    ----------
    rated
        Samples with rates, as of `horizont.monitoring.with_rates`.
    over
        Whether the run is over: then ``cpu`` is the mean and the rest the most of all samples.

    Returns
    -------
    pandas.DataFrame
        By name: ``pid`` (of the first), ``cpu`` in percent of a core, ``memory`` in MiB,
        ``threads``, ``processes``; of a run that goes on at the newest sample, for those alive.
    """
    own = rated[rated["scope"] == "process"]
    if not over:
        own = own[own["sample"] == rated["sample"].max()]
    at_once = own.groupby(["name", "sample"])
    table = pd.DataFrame(
        {
            "pid": at_once["pid"].min(),
            "cpu": 100.0 * at_once["cpu_cores"].sum(min_count=1),
            "memory": at_once["rss_bytes"].sum() / _MIB,
            "threads": at_once["threads"].sum(),
            "processes": at_once.size(),
        }
    )
    how = {"pid": "min", "cpu": "mean", "memory": "max", "threads": "max", "processes": "max"}
    return table.groupby("name").agg(how)


def host_gauges(
    rated: pd.DataFrame, hosts: Collection[str] = (), *, over: bool = False
) -> pd.DataFrame:
    """Tell what each host uses: the machine, and the wire of each emulated host.

    Parameters
    ----------
    rated
        Samples with rates, as of `horizont.monitoring.with_rates`.
    hosts
        The emulated hosts.
    over
        Whether the run is over: then memory is the most and the rest the mean of all samples.

    Returns
    -------
    pandas.DataFrame
        By name: ``cpu`` in percent of a core, ``memory`` and ``available`` in MiB, ``sent`` and
        ``received`` in MiB/s, ``load`` (of a minute), ``runnable`` threads; what is not known of
        an emulated host is NaN, since its processes share the machine's processors and memory.
    """
    if not over:
        rated = rated[rated["sample"] == rated["sample"].max()]
    machine = rated[rated["scope"] == "host"].assign(label="this machine")
    wires = rated[(rated["scope"] == "interface") & (rated["name"] == HOST_INTERFACE)]
    others = wires[wires["host"].isin(list(hosts))]
    rows = pd.concat([machine, others.assign(label=others["host"])], ignore_index=True)
    table = pd.DataFrame(
        {
            "host": rows["label"],
            "cpu": 100.0 * rows["cpu_cores"],
            "memory": rows["memory_used_bytes"] / _MIB,
            "available": rows["memory_available_bytes"] / _MIB,
            "sent": rows["sent_rate"] / _MIB,
            "received": rows["received_rate"] / _MIB,
            "load": rows["load_1min"],
            "runnable": rows["runnable"],
        }
    )
    how = {"memory": "max", "available": "min"}
    columns = [name for name in table if name != "host"]
    grouped = table.groupby("host", sort=False)
    return grouped.agg({str(name): how.get(str(name), "mean") for name in columns})


def sampler_gauges(rated: pd.DataFrame) -> dict[str, float]:
    """Tell the sampler's own cost: ``cpu`` in percent of a core, ``late_ms``, ``missed`` ticks."""
    host = rated[rated["scope"] == "host"]
    own = rated[rated["scope"] == "sampler"]
    return {
        "cpu": float(100.0 * own["cpu_cores"].mean()),
        "late_ms": float(1e3 * host["late_s"].median()),
        "missed": float(host["missed"].sum()),
    }
