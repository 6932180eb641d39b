"""Records as data frames: the run table, start-up times, steps and resource samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd

from horizont.config.run import Run
from horizont.config.system import READERS, GradientExchange, all_systems
from horizont.records.record import Record
from horizont.records.schema import PHASES, STARTUP_PHASES

#: The interface of an emulated host; loopback traffic stays on the host.
HOST_INTERFACE = "eth0"

#: The phases of a step and the rest of it.
PHASES_AND_OTHER = (*PHASES, "other")

#: The fields of a result that are columns of the table of runs.
_RESULT_COLUMNS = (
    *("disturbed", "background_cpu", "wall_s", "train_s"),
    *("final_loss", "test_accuracy", "test_perplexity"),
)

#: Whether frameworks were verified to train the same network: a status for all systems, or one per
#: framework and variant. ``verified`` or ``not comparable: <reason>``.
CertificateStatus = str | Mapping[str, str]

NO_CERTIFICATE_GIVEN = "not comparable: no equivalence certificate"

_Key = TypeVar("_Key")


def run_columns(record: Record) -> dict[str, Any]:
    """Return the columns that identify a run, the first of every table of runs."""
    return {
        "experiment": record.run.experiment,
        "workload": record.run.workload_name,
        "system": record.run.system.name,
        "block": record.run.block,
    }


def host_interfaces(record: Record) -> dict[str, str]:
    """Return the network interface of each host; none if hosts have interfaces in common."""
    if not record.has("byte_counters"):
        return {}
    facts = record.environment.get("hosts", {})
    hosts = record.run.topology.all_hosts
    return {host: facts.get(host, {}).get("interface", HOST_INTERFACE) for host in hosts}


def interface_samples(samples: pd.DataFrame, interfaces: Mapping[str, str]) -> pd.DataFrame:
    """Select the samples of these network interfaces, by host."""
    rows = samples[samples["scope"] == "interface"]
    return rows[rows["name"] == rows["host"].map(interfaces)] if len(rows) else rows


def resources_label(run: Run) -> str:
    """Return device, threads, CPU quota and link rate of a run as a phrase."""
    topology = run.topology
    rate = topology.link.rate_mbit
    parts = ["GPU"] if topology.device == "cuda" else []
    parts += [f"{topology.threads} threads"] if topology.threads > 1 else []
    parts += [f"{topology.cpus_per_host:g} CPUs per host"] if topology.cpus_per_host else []
    return ", ".join([*parts, f"{rate:g} Mbit/s" if rate else "no limit"])


def steps_of(record: Record) -> pd.DataFrame:
    """Read the steps of a record; empty if the run wrote none."""
    if not record.has_file("steps.parquet"):
        return pd.DataFrame(columns=["step", "worker", "kind", "examples", "start_s", "step_s"])
    frame: pd.DataFrame = record.steps().to_pandas()
    return frame


def samples_of(record: Record) -> pd.DataFrame:
    """Read the resource samples of a record; empty if the sampler did not run."""
    if not record.has_file("samples.parquet"):
        return pd.DataFrame(columns=["time_s", "scope", "name", "pid"])
    frame: pd.DataFrame = record.samples().to_pandas()
    return frame


def group_by(records: Iterable[Record], key: Callable[[Record], _Key]) -> dict[_Key, list[Record]]:
    """Group records by a key, in the order of the records."""
    groups: dict[_Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def by_system(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by system, in the order of tables, each ordered by block.

    All planned systems, whether or not their runs succeeded.
    """
    ordered = sorted(records, key=lambda record: record.run.block)
    groups = group_by(ordered, lambda record: record.run.system.name)
    return {system: groups[system] for system in all_systems() if system in groups}


def systems_of(records: Iterable[Record]) -> list[str]:
    """List the systems of `by_system`."""
    return list(by_system(records))


def by_workload(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group records by experiment and workload."""
    return group_by(records, lambda record: (record.run.experiment, record.run.workload_name))


def successful(records: Iterable[Record]) -> list[Record]:
    """Select the successful runs, in the order of systems and blocks."""
    return [record for runs in by_system(records).values() for record in runs if record.ok]


def trained(records: Iterable[Record]) -> list[Record]:
    """Select the successful runs without an injected fault, in their order."""
    return [record for record in records if record.ok and record.run.fault is None]


def table_order(column: pd.Series) -> pd.Series:
    """Return the key by which rows are sorted: registered order of systems and phases."""
    if column.name not in ("system", "phase"):
        return column
    names = all_systems() if column.name == "system" else STARTUP_PHASES
    return column.map({name: position for position, name in enumerate(names)})


def concat_tables(tables: Iterable[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """Concatenate the tables that have rows; without any, return an empty one."""
    tables = [table for table in tables if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def comparability(record: Record, certificate: CertificateStatus, *, of_times: bool = True) -> str:
    """Return ``verified``, or why the times of a run, or its learning, must not be compared."""
    if record.run.gradient_exchange != GradientExchange():
        return "not comparable: a reduced gradient exchange trains differently"
    if of_times and record.run.record_updates != "none":
        return "not comparable: recording its updates slows it down"
    if not uses_shared_order(record.run):
        return "not comparable: it reads the examples in the order of their files"
    if isinstance(certificate, str):
        return certificate
    return certificate.get(record.run.trainer_name, NO_CERTIFICATE_GIVEN)


def uses_shared_order(run: Run) -> bool:
    """Whether the examples come in the order that all systems share."""
    if not run.input.from_files:
        return True
    return READERS[run.input.reader_of(run.system.framework)].ordered


def run_table(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> pd.DataFrame:
    """Build the table of planned runs, failed and skipped ones included.

    One row per run in the order of systems and blocks. Times in seconds; ``record`` is the name of
    the run's folder.
    """
    if not records:
        return pd.DataFrame()
    rows = [
        {
            **run_columns(record),
            "workers": record.run.topology.workers,
            "servers": record.run.topology.servers,
            "threads": record.run.topology.threads,
            "global_batch": record.run.global_batch,
            "status": record.result.status,
            "reason": record.result.reason,
            "comparable": comparability(record, certificate),
            **{name: getattr(record.result, name) for name in _RESULT_COLUMNS},
            "record": record.folder.name,
        }
        for record in records
    ]
    order = ["experiment", "workload", "system", "block"]
    return pd.DataFrame(rows).sort_values(order, key=table_order, ignore_index=True)


def startup_times(records: Sequence[Record]) -> pd.DataFrame:
    """Compute the mean start-up time of every system by phase.

    One row per system and phase, in the order in which the phases happen: ``system``, ``phase``,
    ``mean_s``, ``runs``. Means over the successful runs, so that phases add up.
    """
    rows = [
        (record.run.system.name, phase, phase_s)
        for record in records
        if record.ok
        for phase, phase_s in record.result.startup_s.items()
    ]
    if not rows:
        return pd.DataFrame(columns=["system", "phase", "mean_s", "runs"])
    keys = ["system", "phase"]
    groups = pd.DataFrame(rows, columns=[*keys, "phase_s"]).groupby(keys, sort=False)["phase_s"]
    means = groups.agg(mean_s="mean", runs="count").reset_index()
    return means.sort_values(keys, key=table_order, ignore_index=True)
