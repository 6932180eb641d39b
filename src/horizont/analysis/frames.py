"""Records as data frames, and the columns by which their rows are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from horizont.measure import PHASES
from horizont.records import Record
from horizont.spec import Run, all_systems

#: The interface of an emulated host; what goes by the loopback stays on the host.
WIRE = "eth0"

#: The phases and what is left of a step.
PARTS = (*PHASES, "other")


def identity(record: Record) -> dict[str, Any]:
    """Tell which run a row is about, as the first columns of every table."""
    return {
        "experiment": record.run.experiment,
        "workload": record.run.workload_name,
        "system": record.run.system.name,
        "block": record.run.block,
    }


def means_of(run: Run) -> str:
    """Tell in a few words what a run had of threads, processors and links."""
    shape = run.topology
    said = [f"{shape.threads} threads"] if shape.threads > 1 else []
    said += [f"{shape.host_cpus:g} processors a host"] if shape.host_cpus else []
    rate = shape.link.rate_mbit
    return ", ".join([*said, f"{rate:g} Mbit/s" if rate else "no limit"])


def steps_of(record: Record) -> pd.DataFrame:
    """Read the steps of a record; an empty frame if the run did not get so far."""
    if not (record.folder / "steps.parquet").exists():
        return pd.DataFrame(columns=["step", "worker", "kind", "examples", "start_s", "step_s"])
    return _frame(record.steps())


def samples_of(record: Record) -> pd.DataFrame:
    """Read the resource samples of a record; an empty frame if the sampler did not run."""
    if not (record.folder / "samples.parquet").exists():
        return pd.DataFrame(columns=["time_s", "scope", "name", "pid"])
    return _frame(record.samples())


def _frame(table: Any) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def in_order(systems: Iterable[str]) -> list[str]:
    """Order systems as the table of systems has them, so that all figures agree."""
    present = set(systems)
    return [name for name in all_systems() if name in present]


def systems_of(records: Sequence[Record]) -> list[str]:
    """List the systems that were planned, whether or not their runs went well."""
    return in_order(record.run.system.name for record in records)


def of_system(records: Sequence[Record], system: str) -> list[Record]:
    """Pick the records of a system, ordered by block."""
    own = (record for record in records if record.run.system.name == system)
    return sorted(own, key=lambda record: record.run.block)
