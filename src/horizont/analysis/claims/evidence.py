"""A run as claims see it: where it belongs, and its quantities, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from typing import NamedTuple

import pandas as pd

from horizont.analysis.claims.findings import compare, quantity_label
from horizont.analysis.claims.rules import Check, Count, CurvePoint, Growth, Trend
from horizont.analysis.communication import is_oversubscribed
from horizont.analysis.learning import losses, smoothed
from horizont.analysis.resources import resource_totals
from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus, comparability
from horizont.analysis.steps import step_summary
from horizont.records.record import Record
from horizont.statistics.intervals import Estimate

#: Updates after which the losses of synchronous and asynchronous training are compared.
COMPARED_UPDATES = 100


class Setting(NamedTuple):
    """What two runs must share for their quantities to be compared within a block."""

    experiment: str
    workload: str
    workers: int
    batch: int
    rate_mbit: float
    host_cpus: float
    threads: int

    def description(self) -> str:
        """Say under which conditions the runs were made."""
        hosts = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        link = f", {self.rate_mbit:g} Mbit/s" if self.rate_mbit else ""
        return f"{self.experiment}, {hosts} with {self.batch} examples each{link}"


@dataclass(frozen=True)
class MeasuredRun:
    """A run with what claims ask of it.

    Attributes
    ----------
    status
        ``verified``, or why its times may not be compared.
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
            shape.cpus_per_host or 0.0,
            shape.threads,
        )

    @property
    def usable(self) -> bool:
        """Whether its quantities may be compared: it went well, is proven, and undisturbed."""
        quiet = self.record.run.fault is None
        return self.record.ok and self.status == "verified" and quiet

    @cached_property
    def oversubscribed(self) -> bool:
        """Whether its emulated hosts wanted more processors than there are."""
        return self.record.run.topology.is_emulated and is_oversubscribed(self.record)

    @property
    def examples_per_s(self) -> float:
        """Throughput of all workers together; NaN if they had no common time."""
        return step_summary(self.record).examples_per_s

    @cached_property
    def mean_phases(self) -> pd.Series:
        """Average the parts of an instrumented step, in seconds; NaN where not measured."""
        return step_summary(self.record).phases.mean()

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


def measured_runs(
    records: list[Record], certificates: dict[str, CertificateStatus]
) -> list[MeasuredRun]:
    """Look at records.

    Parameters
    ----------
    proofs
        By workload, whether its systems were shown to train the same network.
    """
    return [
        MeasuredRun(
            record,
            comparability(record, certificates.get(record.run.workload_name, NO_CERTIFICATE_GIVEN)),
        )
        for record in records
    ]


def _total_s(measured_run: MeasuredRun) -> float:
    """Tell how long all workers together need for a global batch, in seconds."""
    return measured_run.record.run.global_batch / measured_run.examples_per_s


def _step_s(measured_run: MeasuredRun) -> float:
    return step_summary(measured_run.record).mean_step_s.get("timed", nan)


def _network_s(measured_run: MeasuredRun) -> float:
    """Add transfer and waiting, as the published times of the network do."""
    return float(
        measured_run.mean_phases["communication"] + measured_run.mean_phases.fillna(0.0)["waiting"]
    )


def _network_fraction(measured_run: MeasuredRun) -> float:
    return _network_s(measured_run) / float(measured_run.mean_phases.sum())


def _peak_memory_mib(measured_run: MeasuredRun) -> float:
    if not (measured_run.record.folder / "samples.parquet").exists():
        return nan
    totals = resource_totals(measured_run.record)
    return float(totals.loc[totals["name"].str.startswith("worker"), "memory_max"].max())


def _half_accuracy_fraction(measured_run: MeasuredRun) -> float:
    """Tell after which share of the run the test accuracy was a half; 1 if it never was."""
    table = measured_run.record.evaluation()
    if table is None or "test_accuracy" not in table.column_names:
        return nan
    looks = table.to_pandas()
    there = looks[looks["test_accuracy"] >= 0.5]
    return float(there["step"].min() / looks["step"].max()) if len(there) else 1.0


def _loss_at_updates(measured_run: MeasuredRun) -> float:
    """Look the smoothed loss up after `UPDATES` updates of the weights.

    Asynchronous workers update one by one, so each of them has made fewer steps by then.
    """
    alone = measured_run.record.run.system.sync == "async"
    step = COMPARED_UPDATES // (measured_run.record.run.topology.workers if alone else 1)
    table = smoothed(losses([measured_run.record]))
    return float(table.loc[table["step"] == step, "smoothed_loss"].mean())


#: Quantity -> how a run's is measured. Seconds are those of one worker's step.
QUANTITIES: dict[str, Callable[[MeasuredRun], float]] = {
    "total_s": _total_s,
    "examples_per_s": lambda seen: seen.examples_per_s,
    "step_s": _step_s,
    "load_s": lambda seen: seen.mean_phases["load"],
    "forward_s": lambda seen: seen.mean_phases["forward"],
    "backward_s": lambda seen: seen.mean_phases["backward"],
    "compute_s": lambda seen: seen.mean_phases["forward"] + seen.mean_phases["backward"],
    "update_s": lambda seen: seen.mean_phases["update"],
    "network_s": _network_s,
    "network_fraction": _network_fraction,
    "peak_memory_mib": _peak_memory_mib,
    "half_accuracy_fraction": _half_accuracy_fraction,
    "final_accuracy": lambda seen: seen.record.result.test_accuracy or nan,
    "loss_at_100_updates": _loss_at_updates,
}


@dataclass(frozen=True)
class Values:
    """A quantity of a system in one setting: by block, with the runs that it was read from."""

    by_block: dict[int, float]
    records: dict[int, str]


class Evidence:
    """The runs at hand.

    Parameters
    ----------
    runs
        All of them, failed ones too: they tell why something could not be tested.
    """

    def __init__(self, runs: Iterable[MeasuredRun]) -> None:
        self.runs = tuple(runs)
        self._measured: dict[tuple[str, str], float] = {}

    @cached_property
    def _usable(self) -> tuple[MeasuredRun, ...]:
        return tuple(seen for seen in self.runs if seen.usable)

    @cached_property
    def _profiled(self) -> bool:
        return any(seen.record.is_profiled for seen in self.runs)

    def settings(self, check: Check, system: str, point: CurvePoint) -> list[Setting]:
        """List the settings in which a system was run, in the order of preference.

        Experiments come in the order of the rule; within one more workers come first, then
        larger batches, then faster links.
        """
        found = {
            seen.setting
            for seen in self._usable
            if seen.system == system and _matches_rule(seen, check, point)
        }
        found = _with_count(_with_count(found, "workers", point.workers), "batch", point.batch)
        found = {setting for setting in found if setting.workers >= point.min_workers}
        place = {name: number for number, name in enumerate(check.experiments)}
        return sorted(
            found,
            key=lambda s: (place[s.experiment], -s.workers, -s.batch, -s.rate_mbit, s),
        )

    def values(self, system: str, setting: Setting, quantity: str) -> Values:
        """Measure a quantity of a system in a setting, block by block, where it was measured."""
        by_block: dict[int, float] = {}
        records: dict[int, str] = {}
        for seen in self._usable:
            if seen.system == system and seen.setting == setting:
                value = self._value(seen, quantity)
                if not isnan(value):
                    by_block[seen.block] = value
                    records[seen.block] = seen.record.folder.name
        return Values(by_block, records)

    def _value(self, run: MeasuredRun, quantity: str) -> float:
        key = (str(run.record.folder), quantity)
        if key not in self._measured:
            self._measured[key] = run.quantity(quantity)
        return self._measured[key]

    def missing_reason(self, check: Check, workload: str, systems: Sequence[str]) -> str:
        """Say why something cannot be tested with these runs."""
        if check.quantity.startswith("operator:") and not self._profiled:
            return "the records hold no operator profile"
        places = " or ".join(name.replace("_", " ") for name in check.experiments)
        for system in systems:
            own = [s for s in self.runs if s.system == system and s.setting.workload == workload]
            own = [s for s in own if s.setting.experiment in check.experiments]
            reason = _why_unusable(own)
            if reason:
                return f"{reason} {system} on {workload} in the experiment {places}"
        wanted = quantity_label(check.quantity) + (f", batch {check.batch}" if check.batch else "")
        return (
            f"{' and '.join(systems)} on {workload}: no runs have what the rule asks for: {wanted}"
        )


def _why_unusable(own: Sequence[MeasuredRun]) -> str:
    if not own:
        return "no runs of"
    if not any(seen.record.ok for seen in own):
        return "no run went well of"
    if not any(seen.usable for seen in own):
        statuses = sorted({seen.status for seen in own})
        return f"{statuses[0]}:" if statuses[0] != "verified" else "no undisturbed runs of"
    return ""


def _matches_rule(measured_run: MeasuredRun, check: Check, point: CurvePoint) -> bool:
    setting, rate = measured_run.setting, check.learning_rate
    return (
        setting.experiment in check.experiments
        and setting.workload == point.workload
        and check.batch in (None, setting.batch)
        and check.workers in (None, setting.workers)
        and rate in (None, measured_run.record.run.workload.optimizer.learning_rate)
        and not measured_run.oversubscribed
    )


def _with_count(settings: set[Setting], field: str, wanted: Count | None) -> set[Setting]:
    """Keep the settings with a number; the least or the most that an experiment has."""
    if wanted is None or not settings:
        return settings
    if isinstance(wanted, int):
        return {setting for setting in settings if getattr(setting, field) == wanted}
    pick = min if wanted == "min" else max
    best: dict[str, int] = {}
    for setting in settings:
        value = getattr(setting, field)
        best[setting.experiment] = pick(best.get(setting.experiment, value), value)
    return {s for s in settings if getattr(s, field) == best[s.experiment]}


@dataclass(frozen=True)
class Factor:
    """A factor of a figure: a system's quantity in a setting, above or below the line."""

    system: str
    setting: Setting
    in_numerator: bool


def paired_quantity(
    evidence: Evidence, quantity: str, factors: Sequence[Factor], scale: float = 1.0
) -> tuple[Estimate, tuple[str, ...]] | None:
    """Multiply and divide a quantity over its sides, block by block."""
    read = [evidence.values(side.system, side.setting, quantity) for side in factors]
    blocks = set(read[0].by_block).intersection(*(values.by_block for values in read[1:]))
    if not blocks:
        return None
    above, under = [], []
    for block in sorted(blocks):
        above.append(scale * _product(read, factors, block, in_numerator=True))
        under.append(_product(read, factors, block, in_numerator=False))
    records = tuple(values.records[block] for values in read for block in sorted(blocks))
    return compare(above, under), records


def _product(
    values_of: Sequence[Values], factors: Sequence[Factor], block: int, *, in_numerator: bool
) -> float:
    product = 1.0
    for values, side in zip(values_of, factors, strict=True):
        if side.in_numerator is in_numerator:
            product *= values.by_block[block]
    return product


def paired_points(
    evidence: Evidence, check: Trend | Growth, system: str, workload: str
) -> list[tuple[Setting, Setting]]:
    """Pair the settings of two points of a curve: all but what the points differ in is the same."""
    start, end = (
        at if at.workload else at.model_copy(update={"workload": workload})
        for at in (check.start, check.end)
    )
    pairs = []
    for late in evidence.settings(check, system, end):
        for early in evidence.settings(check, system, start):
            moved = early._replace(workers=late.workers, batch=late.batch, workload=late.workload)
            same_batch = early.batch == late.batch or start.batch != end.batch
            same_workers = early.workers == late.workers or start.workers != end.workers
            if moved == late and early != late and same_batch and same_workers:
                pairs.append((early, late))
    return pairs
