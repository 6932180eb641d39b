"""A run as claims see it: where it belongs, and its quantities, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import NamedTuple

import pandas as pd

from horizont.analysis.digest import digest
from horizont.analysis.learning import losses, smoothed
from horizont.analysis.resources import resource_totals
from horizont.analysis.runs import NO_PROOF, ProofStatus, comparable
from horizont.analysis.scaling import is_crowded
from horizont.records import Record

#: Updates after which the losses of synchronous and asynchronous training are compared.
UPDATES = 100


class Setting(NamedTuple):
    """What two runs must share for their quantities to be compared within a block."""

    experiment: str
    workload: str
    workers: int
    batch: int
    rate_mbit: float
    host_cpus: float
    threads: int

    def words(self) -> str:
        """Say under which conditions the runs were made."""
        hosts = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        link = f", {self.rate_mbit:g} Mbit/s" if self.rate_mbit else ""
        return f"{self.experiment}, {hosts} with {self.batch} examples each{link}"


@dataclass(frozen=True)
class Seen:
    """A run with what claims ask of it.

    Attributes
    ----------
    status
        ``proven``, or why its times may not be compared.
    """

    record: Record
    status: str

    @property
    def system(self) -> str:
        """Name the system."""
        return self.record.run.system.name

    @property
    def block(self) -> int:
        """Number of the block."""
        return self.record.run.block

    @cached_property
    def setting(self) -> Setting:
        """Tell what must be the same in a run that it is compared with."""
        run = self.record.run
        shape = run.topology
        return Setting(
            run.experiment,
            run.workload_name,
            shape.workers,
            run.local_batch,
            shape.link.rate_mbit or 0.0,
            shape.host_cpus or 0.0,
            shape.threads,
        )

    @property
    def usable(self) -> bool:
        """Whether its quantities may be compared: it went well, is proven, and undisturbed."""
        quiet = self.record.run.incident is None
        return self.record.ok and self.status == "proven" and quiet

    @cached_property
    def crowded(self) -> bool:
        """Whether its emulated hosts wanted more processors than there are."""
        return self.record.run.topology.is_emulated and is_crowded(self.record)

    @property
    def examples_per_s(self) -> float:
        """Throughput of all workers together; NaN if they had no common time."""
        return digest(self.record).examples_per_s

    @cached_property
    def parts(self) -> pd.Series:
        """Average the parts of an instrumented step, in seconds; NaN where not measured."""
        return digest(self.record).parts.mean()

    def quantity(self, name: str) -> float:
        """Measure a quantity of `QUANTITIES`; NaN if the record does not hold it."""
        if name.startswith("operator:"):
            return operator_s(self.record, name.removeprefix("operator:"))
        return float(QUANTITIES[name](self))


def operator_s(record: Record, operator: str) -> float:
    """Add up what a class of operators took of a profiled step, in seconds; NaN without one."""
    profile = record.operators()
    if profile is None:
        return nan
    table: pd.DataFrame = profile.to_pandas()
    return float(table.loc[table["operator_class"] == operator, "self_s"].sum(min_count=1))


def see(records: list[Record], proofs: dict[str, ProofStatus]) -> list[Seen]:
    """Look at records.

    Parameters
    ----------
    proofs
        By workload, whether its systems were shown to train the same network.
    """
    return [
        Seen(record, comparable(record, proofs.get(record.run.workload_name, NO_PROOF)))
        for record in records
    ]


def _total_s(seen: Seen) -> float:
    """Tell how long all workers together need for a global batch, in seconds."""
    return seen.record.run.global_batch / seen.examples_per_s


def _step_s(seen: Seen) -> float:
    return digest(seen.record).mean_step_s.get("bare", nan)


def _network_s(seen: Seen) -> float:
    """Add transfer and waiting, as the published times of the network do."""
    return float(seen.parts["communication"] + seen.parts.fillna(0.0)["waiting"])


def _network_share(seen: Seen) -> float:
    return _network_s(seen) / float(seen.parts.sum())


def _peak_memory_mib(seen: Seen) -> float:
    if not (seen.record.folder / "samples.parquet").exists():
        return nan
    totals = resource_totals(seen.record)
    return float(totals.loc[totals["name"].str.startswith("worker"), "memory_max"].max())


def _half_accuracy_share(seen: Seen) -> float:
    """Tell after which share of the run the test accuracy was a half; 1 if it never was."""
    table = seen.record.quality()
    if table is None or "test_accuracy" not in table.column_names:
        return nan
    looks = table.to_pandas()
    there = looks[looks["test_accuracy"] >= 0.5]
    return float(there["step"].min() / looks["step"].max()) if len(there) else 1.0


def _loss_at_updates(seen: Seen) -> float:
    """Look the smoothed loss up after `UPDATES` updates of the weights.

    Asynchronous workers update one by one, so each of them has made fewer steps by then.
    """
    alone = seen.record.run.system.sync == "async"
    step = UPDATES // (seen.record.run.topology.workers if alone else 1)
    table = smoothed(losses([seen.record]))
    return float(table.loc[table["step"] == step, "smooth"].mean())


#: Quantity -> how a run's is measured. Seconds are those of one worker's step.
QUANTITIES: dict[str, Callable[[Seen], float]] = {
    "total_s": _total_s,
    "examples_per_s": lambda seen: seen.examples_per_s,
    "step_s": _step_s,
    "load_s": lambda seen: seen.parts["load"],
    "forward_s": lambda seen: seen.parts["forward"],
    "backward_s": lambda seen: seen.parts["backward"],
    "compute_s": lambda seen: seen.parts["forward"] + seen.parts["backward"],
    "update_s": lambda seen: seen.parts["update"],
    "network_s": _network_s,
    "network_share": _network_share,
    "peak_memory_mib": _peak_memory_mib,
    "half_accuracy_share": _half_accuracy_share,
    "final_accuracy": lambda seen: seen.record.result.test_accuracy or nan,
    "loss_at_100_updates": _loss_at_updates,
}
