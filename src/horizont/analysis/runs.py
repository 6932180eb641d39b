"""Records as data frames: the run table, start-up times, steps and resource samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.config.run import Run
from horizont.config.system import READERS, GradientExchange, all_systems
from horizont.records.record import Record
from horizont.records.schema import PHASES, STARTUP_PHASES

#: The interface of an emulated host; loopback traffic stays on the host.
HOST_INTERFACE = "eth0"

#: The phases of a step and the rest of it.
PHASES_AND_OTHER = (*PHASES, "other")

#: A status for all systems, or one per framework and variant: ``verified`` or
#: ``not comparable: <reason>``.
CertificateStatus = str | Mapping[str, str]

NO_CERTIFICATE_GIVEN = "not comparable: no equivalence certificate"


def run_columns(record: Record) -> dict[str, Any]:
    """Return the columns that identify a run, the first of every table of runs."""
    return {
        "experiment": record.run.experiment,
        "workload": record.run.workload_name,
        "system": record.run.system.name,
        "block": record.run.block,
    }


def resources_label(run: Run) -> str:
    """Return threads, CPU quota and link rate of a run as a phrase."""
    topology = run.topology
    rate = topology.link.rate_mbit
    parts = [f"{topology.threads} threads"] if topology.threads > 1 else []
    parts += [f"{topology.cpus_per_host:g} CPUs per host"] if topology.cpus_per_host else []
    return ", ".join([*parts, f"{rate:g} Mbit/s" if rate else "no limit"])


def steps_of(record: Record) -> pd.DataFrame:
    """Read the steps of a record; empty if the run wrote none."""
    if not (record.folder / "steps.parquet").exists():
        return pd.DataFrame(columns=["step", "worker", "kind", "examples", "start_s", "step_s"])
    frame: pd.DataFrame = record.steps().to_pandas()
    return frame


def samples_of(record: Record) -> pd.DataFrame:
    """Read the resource samples of a record; empty if the sampler did not run."""
    if not (record.folder / "samples.parquet").exists():
        return pd.DataFrame(columns=["time_s", "scope", "name", "pid"])
    frame: pd.DataFrame = record.samples().to_pandas()
    return frame


def system_order(systems: Iterable[str]) -> list[str]:
    """Sort systems in the order of the registry, which all tables and figures share."""
    present = set(systems)
    return [name for name in all_systems() if name in present]


def sort_by_system(table: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by system in the order of the registry, stably."""
    position = {name: index for index, name in enumerate(system_order(table["system"]))}
    return table.sort_values(
        "system", key=lambda column: column.map(position), kind="stable", ignore_index=True
    )


def systems_of(records: Sequence[Record]) -> list[str]:
    """List the planned systems, whether or not their runs succeeded."""
    return system_order(record.run.system.name for record in records)


def records_of_system(records: Sequence[Record], system: str) -> list[Record]:
    """Select the records of a system, ordered by block."""
    selected = (record for record in records if record.run.system.name == system)
    return sorted(selected, key=lambda record: record.run.block)


def comparability(record: Record, certificate: CertificateStatus) -> str:
    """Return ``verified``, or why the times of a run must not be compared."""
    if record.run.gradient_exchange != GradientExchange():
        return "not comparable: a reduced gradient exchange trains differently"
    if record.run.record_updates != "none":
        return "not comparable: recording its updates slows it down"
    if not uses_shared_order(record.run):
        return "not comparable: it reads the examples in the order of their files"
    if isinstance(certificate, str):
        return certificate
    return certificate.get(record.run.system.framework_variant, NO_CERTIFICATE_GIVEN)


def uses_shared_order(run: Run) -> bool:
    """Whether the examples come in the order that all systems share."""
    if not run.input.from_files:
        return True
    return READERS[run.input.reader_of(run.system.framework)].ordered


def run_table(
    records: Sequence[Record], certificate: CertificateStatus = NO_CERTIFICATE_GIVEN
) -> pd.DataFrame:
    """Build the table of runs, one row per run in the order of systems and blocks.

    Times in seconds; ``record`` is the name of the run's folder.

    Parameters
    ----------
    records
        Of all planned runs, failed and skipped ones included.
    certificate
        Whether the frameworks were verified to train the same network.
    """
    if not records:
        return pd.DataFrame()
    frame = pd.DataFrame([_run_row(record, certificate) for record in records])
    position = {name: index for index, name in enumerate(system_order(frame["system"]))}
    return frame.sort_values(
        ["experiment", "workload", "system", "block"],
        key=lambda column: column.map(position) if column.name == "system" else column,
        ignore_index=True,
    )


def _run_row(record: Record, certificate: CertificateStatus) -> dict[str, object]:
    run, result = record.run, record.result
    return {
        **run_columns(record),
        "workers": run.topology.workers,
        "servers": run.topology.servers,
        "threads": run.topology.threads,
        "global_batch": run.global_batch,
        "status": result.status,
        "reason": result.reason,
        "comparable": comparability(record, certificate),
        "disturbed": result.disturbed,
        "background_cpu": result.background_cpu,
        "wall_s": result.wall_s,
        "train_s": result.train_s,
        "final_loss": result.final_loss,
        "test_accuracy": result.test_accuracy,
        "test_perplexity": result.test_perplexity,
        "record": record.folder.name,
    }


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
    frame = pd.DataFrame(rows, columns=["system", "phase", "phase_s"])
    order = dict.fromkeys([*system_order(frame["system"]), *STARTUP_PHASES, *frame["phase"]])
    position = {name: index for index, name in enumerate(order)}
    grouped = frame.groupby(["system", "phase"])["phase_s"].agg(mean_s="mean", runs="count")
    return grouped.reset_index().sort_values(
        ["system", "phase"], key=lambda column: column.map(position), ignore_index=True
    )
