"""Quantities of measured runs, the settings they were measured in, and their paired ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan, prod
from typing import NamedTuple

import pandas as pd

from horizont.analysis.claims.findings import quantity_label
from horizont.analysis.claims.rules import Check, Count, CurvePoint, Growth, Trend
from horizont.analysis.learning import losses, smoothed
from horizont.analysis.resources import resource_totals
from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus, comparability
from horizont.analysis.scaling import is_oversubscribed
from horizont.analysis.steps import step_summary
from horizont.records.record import Record
from horizont.statistics.intervals import Estimate, paired_ratio

#: Updates after which the losses of synchronous and asynchronous training are compared.
COMPARED_UPDATES = 100


class Setting(NamedTuple):
    """The conditions that two runs must share to be compared within a block."""

    experiment: str
    workload: str
    workers: int
    batch: int
    rate_mbit: float
    cpus_per_host: float
    threads: int

    def description(self) -> str:
        """Return the conditions as a phrase."""
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        link = f", {self.rate_mbit:g} Mbit/s" if self.rate_mbit else ""
        return f"{self.experiment}, {workers} with {self.batch} examples each{link}"


@dataclass(frozen=True)
class MeasuredRun:
    """A run with the quantities that claims are about, each read on demand.

    Attributes
    ----------
    status
        ``verified``, or why its times may not be compared.
    """

    record: Record
    status: str

    @property
    def system(self) -> str:
        """Name of the system."""
        return self.record.run.system.name

    @cached_property
    def setting(self) -> Setting:
        """Conditions of the run."""
        run, topology = self.record.run, self.record.run.topology
        return Setting(
            run.experiment,
            run.workload_name,
            topology.workers,
            run.local_batch,
            topology.link.rate_mbit or 0.0,
            topology.cpus_per_host or 0.0,
            topology.threads,
        )

    @property
    def is_usable(self) -> bool:
        """Whether its quantities may be compared: successful, verified, without a fault."""
        return self.record.ok and self.status == "verified" and self.record.run.fault is None

    @cached_property
    def is_oversubscribed(self) -> bool:
        """Whether its hosts share a machine and demand more CPUs than there are."""
        share_machine = self.record.has("byte_counters") and self.record.has("shared_clock")
        return share_machine and is_oversubscribed(self.record)

    @cached_property
    def mean_phases(self) -> pd.Series:
        """Mean phases of an instrumented step, in seconds; NaN where not measured."""
        return step_summary(self.record).phases.mean()

    def quantity(self, name: str) -> float:
        """Compute one of `QUANTITIES` or an operator class; NaN if the record does not have it."""
        if name.startswith("operator:"):
            return _operator_s(self.record, name.removeprefix("operator:"))
        return float(QUANTITIES[name](self))


def measured_runs(
    records: Sequence[Record], certificates: Mapping[str, CertificateStatus]
) -> list[MeasuredRun]:
    """Return the runs of records, with the certificate status of each workload."""
    runs = []
    for record in records:
        certificate = certificates.get(record.run.workload_name, NO_CERTIFICATE_GIVEN)
        runs.append(MeasuredRun(record, comparability(record, certificate)))
    return runs


def _operator_s(record: Record, operator_class: str) -> float:
    """Sum a class of operators over a profiled step, in seconds; NaN without a profile."""
    profile = record.operators()
    if profile is None:
        return nan
    table: pd.DataFrame = profile.to_pandas()
    is_class = table["operator_class"] == operator_class
    return float(table.loc[is_class, "self_s"].sum(min_count=1))


def _examples_per_s(run: MeasuredRun) -> float:
    return step_summary(run.record).examples_per_s


def _network_s(run: MeasuredRun) -> float:
    """Sum transfer and waiting, as the published network times do."""
    return float(run.mean_phases["communication"] + run.mean_phases.fillna(0.0)["waiting"])


def _peak_memory_mib(run: MeasuredRun) -> float:
    if not (run.record.folder / "samples.parquet").exists():
        return nan
    totals = resource_totals(run.record)
    return float(totals.loc[totals["name"].str.startswith("worker"), "memory_max"].max())


def _half_accuracy_fraction(run: MeasuredRun) -> float:
    """Compute the fraction of the run until test accuracy is a half; 1 if it never is."""
    evaluation = run.record.evaluation()
    if evaluation is None or "test_accuracy" not in evaluation.column_names:
        return nan
    table = evaluation.to_pandas()
    reached = table[table["test_accuracy"] >= 0.5]
    return float(reached["step"].min() / table["step"].max()) if len(reached) else 1.0


def _loss_at_updates(run: MeasuredRun) -> float:
    """Return the smoothed loss after `COMPARED_UPDATES` updates of the weights.

    Asynchronous workers update one by one, so each of them has made fewer steps by then.
    """
    topology, is_async = run.record.run.topology, run.record.run.system.sync == "async"
    step = COMPARED_UPDATES // (topology.workers if is_async else 1)
    table = smoothed(losses([run.record]))
    return float(table.loc[table["step"] == step, "smoothed_loss"].mean())


#: Quantity -> its value for a run. Seconds are those of one worker's step, of `total_s` those of
#: a global batch over all workers.
QUANTITIES: dict[str, Callable[[MeasuredRun], float]] = {
    "total_s": lambda run: run.record.run.global_batch / _examples_per_s(run),
    "examples_per_s": _examples_per_s,
    "step_s": lambda run: step_summary(run.record).mean_step_s.get("timed", nan),
    "load_s": lambda run: run.mean_phases["load"],
    "forward_s": lambda run: run.mean_phases["forward"],
    "backward_s": lambda run: run.mean_phases["backward"],
    "compute_s": lambda run: run.mean_phases["forward"] + run.mean_phases["backward"],
    "update_s": lambda run: run.mean_phases["update"],
    "network_s": _network_s,
    "network_fraction": lambda run: _network_s(run) / float(run.mean_phases.sum()),
    "peak_memory_mib": _peak_memory_mib,
    "half_accuracy_fraction": _half_accuracy_fraction,
    "final_accuracy": lambda run: run.record.result.test_accuracy or nan,
    "loss_at_100_updates": _loss_at_updates,
}


class Values(NamedTuple):
    """A quantity of a system in one setting, by block, with the names of the records."""

    by_block: dict[int, float]
    records: dict[int, str]


class Evidence:
    """The available runs.

    Parameters
    ----------
    runs
        All of them, failed ones too, because they are the reason why something is not testable.
    """

    def __init__(self, runs: Iterable[MeasuredRun]) -> None:
        self.runs = tuple(runs)
        self._values: dict[tuple[str, str], float] = {}

    @cached_property
    def _usable(self) -> tuple[MeasuredRun, ...]:
        return tuple(run for run in self.runs if run.is_usable)

    @cached_property
    def _has_profiles(self) -> bool:
        return any(run.record.is_profiled for run in self.runs)

    def settings(self, check: Check, system: str, point: CurvePoint) -> list[Setting]:
        """List the settings in which a system was run, in order of preference.

        Experiments come in the order of the rule; within one, more workers come first, then
        larger batches, then faster links.
        """
        settings = {
            run.setting
            for run in self._usable
            if run.system == system and _matches_rule(run, check, point)
        }
        settings = _with_count(settings, "workers", point.workers)
        settings = _with_count(settings, "batch", point.batch)
        position = {name: index for index, name in enumerate(check.experiments)}
        return sorted(
            (setting for setting in settings if setting.workers >= point.min_workers),
            key=lambda s: (position[s.experiment], -s.workers, -s.batch, -s.rate_mbit, s),
        )

    def values(self, system: str, setting: Setting, quantity: str) -> Values:
        """Collect a quantity of a system in a setting by block, where it was measured."""
        values = Values({}, {})
        for run in self._usable:
            if run.system == system and run.setting == setting:
                key = (str(run.record.folder), quantity)
                if key not in self._values:
                    self._values[key] = run.quantity(quantity)
                if not isnan(self._values[key]):
                    values.by_block[run.record.run.block] = self._values[key]
                    values.records[run.record.run.block] = run.record.folder.name
        return values

    def missing_reason(self, check: Check, workload: str, systems: Sequence[str]) -> str:
        """Return why something cannot be tested with these runs."""
        if check.quantity.startswith("operator:") and not self._has_profiles:
            return "the records contain no operator profile"
        experiments = " or ".join(name.replace("_", " ") for name in check.experiments)
        for system in systems:
            runs = [
                run
                for run in self.runs
                if run.system == system
                and run.setting.workload == workload
                and run.setting.experiment in check.experiments
            ]
            reason = _why_unusable(runs)
            if reason:
                return f"{reason} {system} on {workload} in the experiment {experiments}"
        wanted = quantity_label(check.quantity) + (f", batch {check.batch}" if check.batch else "")
        return f"{' and '.join(systems)} on {workload}: no runs match the rule: {wanted}"


def _why_unusable(runs: Sequence[MeasuredRun]) -> str:
    if not runs:
        return "no runs of"
    if not any(run.record.ok for run in runs):
        return "no successful run of"
    if not any(run.is_usable for run in runs):
        status = min(run.status for run in runs)
        return f"{status}:" if status != "verified" else "no runs without a fault of"
    return ""


def _matches_rule(run: MeasuredRun, check: Check, point: CurvePoint) -> bool:
    setting = run.setting
    return (
        setting.experiment in check.experiments
        and setting.workload == point.workload
        and check.batch in (None, setting.batch)
        and check.workers in (None, setting.workers)
        and check.learning_rate in (None, run.record.run.workload.optimizer.learning_rate)
        and not run.is_oversubscribed
    )


def _with_count(settings: set[Setting], field: str, count: Count | None) -> set[Setting]:
    """Select the settings with a number, or with the minimum or maximum of their experiment."""
    if count is None:
        return settings
    if isinstance(count, int):
        return {setting for setting in settings if getattr(setting, field) == count}
    pick = min if count == "min" else max
    best = {
        name: pick(getattr(s, field) for s in settings if s.experiment == name)
        for name in {setting.experiment for setting in settings}
    }
    return {s for s in settings if getattr(s, field) == best[s.experiment]}


@dataclass(frozen=True)
class Factor:
    """A factor of a paired quantity: a system's quantity in a setting."""

    system: str
    setting: Setting
    in_numerator: bool


def paired_quantity(
    evidence: Evidence, quantity: str, factors: Sequence[Factor], scale: float = 1.0
) -> tuple[Estimate, tuple[str, ...]] | None:
    """Multiply and divide a quantity over its factors, block by block; None without a block."""
    values = [evidence.values(factor.system, factor.setting, quantity) for factor in factors]
    blocks = sorted(set(values[0].by_block).intersection(*(v.by_block for v in values[1:])))
    if not blocks:
        return None

    def products(in_numerator: bool) -> list[float]:
        chosen = [
            v
            for v, factor in zip(values, factors, strict=True)
            if factor.in_numerator is in_numerator
        ]
        return [prod(v.by_block[block] for v in chosen) for block in blocks]

    records = tuple(v.records[block] for v in values for block in blocks)
    return paired_ratio([scale * value for value in products(True)], products(False)), records


def paired_points(
    evidence: Evidence, check: Trend | Growth, system: str, workload: str
) -> list[tuple[Setting, Setting]]:
    """Pair the settings of two points that differ only in what the rule varies."""
    start, end = (
        point if point.workload else point.model_copy(update={"workload": workload})
        for point in (check.start, check.end)
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
