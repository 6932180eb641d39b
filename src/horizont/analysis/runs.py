"""Records as data frames, and the columns by which their rows are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.config.input import READERS
from horizont.config.run import Run
from horizont.config.system import GradientExchange, all_systems
from horizont.monitoring.step_log import PHASES
from horizont.records.record import Record

#: The interface of an emulated host; what goes by the loopback stays on the host.
HOST_INTERFACE = "eth0"

#: The phases and what is left of a step.
PHASES_AND_OTHER = (*PHASES, "other")


def run_columns(record: Record) -> dict[str, Any]:
    """Tell which run a row is about, as the first columns of every table."""
    return {
        "experiment": record.run.experiment,
        "workload": record.run.workload_name,
        "system": record.run.system.name,
        "block": record.run.block,
    }


def resources_label(run: Run) -> str:
    """Tell in a few words what a run had of threads, processors and links."""
    shape = run.topology
    said = [f"{shape.threads} threads"] if shape.threads > 1 else []
    said += [f"{shape.cpus_per_host:g} processors a host"] if shape.cpus_per_host else []
    rate = shape.link.rate_mbit
    return ", ".join([*said, f"{rate:g} Mbit/s" if rate else "no limit"])


def steps_of(record: Record) -> pd.DataFrame:
    """Read the steps of a record; an empty frame if the run did not get so far."""
    if not (record.folder / "steps.parquet").exists():
        return pd.DataFrame(columns=["step", "worker", "kind", "examples", "start_s", "step_s"])
    return _to_frame(record.steps())


def samples_of(record: Record) -> pd.DataFrame:
    """Read the resource samples of a record; an empty frame if the sampler did not run."""
    if not (record.folder / "samples.parquet").exists():
        return pd.DataFrame(columns=["time_s", "scope", "name", "pid"])
    return _to_frame(record.samples())


def _to_frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def system_order(systems: Iterable[str]) -> list[str]:
    """Order systems as the table of systems has them, so that all figures agree."""
    present = set(systems)
    return [name for name in all_systems() if name in present]


def systems_of(records: Sequence[Record]) -> list[str]:
    """List the systems that were planned, whether or not their runs went well."""
    return system_order(record.run.system.name for record in records)


def records_of_system(records: Sequence[Record], system: str) -> list[Record]:
    """Pick the records of a system, ordered by block."""
    own = (record for record in records if record.run.system.name == system)
    return sorted(own, key=lambda record: record.run.block)


#: A status for all systems, or one for each framework and each of its builds: ``verified`` or
#: ``not comparable: ...``.
CertificateStatus = str | Mapping[str, str]

NO_CERTIFICATE_GIVEN = "not comparable: no equivalence certificate"

#: The parts of a start-up in the order in which they happen.
STARTUP_PHASES = ("interpreter", "framework", "data", "network", "input_batches", "first_step")


def comparability(record: Record, certificate: CertificateStatus) -> str:
    """Tell whether a run's times may be compared with the others'."""
    if record.run.gradient_exchange != GradientExchange():
        return "not comparable: workers that spare messages train another way"
    if record.run.record_updates != "none":
        return "not comparable: its updates were recorded, which slows it"
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
    """Build the table of runs.

    Parameters
    ----------
    records
        Of all planned runs, failed and skipped ones included.
    proof
        Whether the frameworks were shown to train the same network.

    Returns
    -------
    pandas.DataFrame
        A row a run in the order of systems and blocks. Times in seconds; ``record`` is the name
        of the folder that everything else about the run can be looked up in.
    """
    rows = [_run_row(record, certificate) for record in records]
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    order = {name: place for place, name in enumerate(system_order(frame["system"]))}
    return frame.sort_values(
        ["experiment", "workload", "system", "block"],
        key=lambda column: column.map(order) if column.name == "system" else column,
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
    """Build the table of start-up times.

    Returns
    -------
    pandas.DataFrame
        A row a system and part, in the order in which the parts happen: ``system, part,
        mean_s, runs``; seconds, mean over the runs that went well, so that parts add up.
    """
    rows = [
        {**run_columns(record), "phase": part, "phase_s": spent_s}
        for record in records
        if record.ok
        for part, spent_s in record.result.startup_s.items()
    ]
    if not rows:
        return pd.DataFrame(columns=["system", "phase", "mean_s", "runs"])
    frame = pd.DataFrame(rows)
    others = [part for part in frame["phase"].unique() if part not in STARTUP_PHASES]
    place = {
        name: i for i, name in enumerate([*system_order(frame["system"]), *STARTUP_PHASES, *others])
    }
    grouped = frame.groupby(["system", "phase"])["phase_s"].agg(mean_s="mean", runs="count")
    return grouped.reset_index().sort_values(
        ["system", "phase"], key=lambda column: column.map(place), ignore_index=True
    )
