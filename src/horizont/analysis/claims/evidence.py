"""The runs that claims are tested with: their settings, and quantities paired by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from horizont.analysis.claims.quantities import measure, quantity_label
from horizont.analysis.claims.rules import Check, CurvePoint, Growth, Trend
from horizont.analysis.runs import NO_CERTIFICATE_GIVEN, CertificateStatus, comparability
from horizont.analysis.scaling import is_oversubscribed
from horizont.records.record import Record
from horizont.statistics.intervals import Estimate, median_interval, paired_ratio


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


class Comparison(NamedTuple):
    """A ratio of products of a quantity, or the quantity itself.

    Attributes
    ----------
    factors
        System, setting, and whether the factor is in the numerator.
    scale
        A factor of the numerator.
    """

    conditions: str
    factors: Sequence[tuple[str, Setting, bool]]
    scale: float = 1.0


class Evidence:
    """The available runs.

    Attributes
    ----------
    runs
        One row per run: ``setting`` and its fields, ``system``, ``block``, ``record``; ``status``,
        ``verified`` or why its times may not be compared; ``usable``: successful, verified and
        without a fault; ``oversubscribed``: its hosts share a machine and demand more CPUs than
        there are; ``learning_rate`` and ``test_accuracy``. Failed runs too, because they are the
        reason why something is not testable.
    usable
        The usable ones.
    """

    def __init__(
        self, records: Sequence[Record], certificates: Mapping[str, CertificateStatus]
    ) -> None:
        columns = ["setting", "system", "block", "record", "status", "usable", "oversubscribed"]
        columns += ["learning_rate", "test_accuracy", *Setting._fields]
        rows = [_run_row(record, certificates) for record in records]
        runs = pd.DataFrame(rows, columns=columns)
        self.runs = runs.astype({"usable": bool, "oversubscribed": bool})
        self.usable = self.runs[self.runs["usable"]]
        self._values: dict[tuple[str, str], float] = {}

    def settings(self, check: Check, system: str, point: CurvePoint) -> list[Setting]:
        """List the settings in which a system was run, in order of preference.

        Experiments come in the order of the rule; within one, more workers come first, then
        larger batches, then faster links.
        """
        runs = self.usable
        runs = runs[(runs["system"] == system) & (runs["workload"] == point.workload)]
        runs = runs[runs["experiment"].isin(check.experiments) & ~runs["oversubscribed"]]
        for column in ("batch", "workers", "learning_rate"):
            wanted = getattr(check, column)
            if wanted is not None:
                runs = runs[runs[column] == wanted]
        for column, count in (("workers", point.workers), ("batch", point.batch)):
            if isinstance(count, str):
                runs = runs[runs[column] == runs.groupby("experiment")[column].transform(count)]
            elif count is not None:
                runs = runs[runs[column] == count]
        position = {name: index for index, name in enumerate(check.experiments)}
        return sorted(
            set(runs.loc[runs["workers"] >= point.min_workers, "setting"]),
            key=lambda s: (position[s.experiment], -s.workers, -s.batch, -s.rate_mbit, s),
        )

    def measure(
        self, quantity: str, comparison: Comparison
    ) -> tuple[Estimate, Sequence[str]] | None:
        """Estimate a comparison over the blocks that have all of its factors; None without one.

        With the names of the records.
        """
        factors = comparison.factors
        columns = [self._by_block(quantity, system, setting) for system, setting, _ in factors]
        table = pd.concat(columns, axis="columns", join="inner").sort_index()
        if table.empty:
            return None
        values = table["value"].to_numpy(float).reshape(len(table), len(factors))
        is_numerator = np.array([in_numerator for _, _, in_numerator in factors])
        numerator = comparison.scale * values[:, is_numerator].prod(axis=1)
        if is_numerator.all():
            estimate = median_interval(numerator)
        else:
            estimate = paired_ratio(numerator, values[:, ~is_numerator].prod(axis=1))
        return estimate, list(table["record"].to_numpy().ravel(order="F"))

    def _by_block(self, quantity: str, system: str, setting: Setting) -> pd.DataFrame:
        """Return ``value`` and ``record`` (its name) by block, where the quantity was measured."""
        is_same = (self.usable["system"] == system) & self.usable["setting"].map(setting.__eq__)
        runs = self.usable[is_same]
        values = {
            "value": [self._value(record, quantity) for record in runs["record"]],
            "record": [record.folder.name for record in runs["record"]],
        }
        table = pd.DataFrame(values, index=runs["block"]).dropna()
        return table[~table.index.duplicated(keep="last")]

    def _value(self, record: Record, quantity: str) -> float:
        """Read a quantity once; many claims are about the same runs."""
        key = (str(record.folder), quantity)
        if key not in self._values:
            self._values[key] = measure(record, quantity)
        return self._values[key]

    def missing_reason(self, check: Check, workload: str, systems: Sequence[str]) -> str:
        """Return why something cannot be tested with these runs."""
        is_operator = check.quantity.startswith("operator:")
        if is_operator and not any(record.is_profiled for record in self.runs["record"]):
            return "the records contain no operator profile"
        experiments = " or ".join(name.replace("_", " ") for name in check.experiments)
        runs = self.runs[self.runs["workload"] == workload]
        runs = runs[runs["experiment"].isin(check.experiments)]
        for system in systems:
            reason = _why_unusable(runs[runs["system"] == system])
            if reason:
                return f"{reason} {system} on {workload} in the experiment {experiments}"
        wanted = quantity_label(check.quantity) + (f", batch {check.batch}" if check.batch else "")
        return f"{' and '.join(systems)} on {workload}: no runs match the rule: {wanted}"

    def paired_points(
        self, check: Trend | Growth, system: str, workload: str
    ) -> list[tuple[Setting, Setting]]:
        """Pair the settings of two points that differ only in what the rule varies."""
        start, end = (
            point if point.workload else point.model_copy(update={"workload": workload})
            for point in (check.start, check.end)
        )
        pairs = []
        for late in self.settings(check, system, end):
            for early in self.settings(check, system, start):
                moved = early._replace(
                    workload=late.workload,
                    workers=early.workers if start.workers == end.workers else late.workers,
                    batch=early.batch if start.batch == end.batch else late.batch,
                )
                if early != late == moved:
                    pairs.append((early, late))
        return pairs


def _run_row(record: Record, certificates: Mapping[str, CertificateStatus]) -> tuple[object, ...]:
    run, topology = record.run, record.run.topology
    status = comparability(record, certificates.get(run.workload_name, NO_CERTIFICATE_GIVEN))
    usable = record.ok and status == "verified" and run.fault is None
    share_machine = record.has("byte_counters") and record.has("shared_clock")
    oversubscribed = share_machine and is_oversubscribed(record)
    setting = Setting(
        run.experiment,
        run.workload_name,
        topology.workers,
        run.local_batch,
        topology.link.rate_mbit or 0.0,
        topology.cpus_per_host or 0.0,
        topology.threads,
    )
    learning = (run.workload.optimizer.learning_rate, record.result.test_accuracy)
    row = (setting, run.system.name, run.block, record, status, usable, oversubscribed)
    return (*row, *learning, *setting)


def _why_unusable(runs: pd.DataFrame) -> str:
    if runs.empty:
        return "no runs of"
    if not any(record.ok for record in runs["record"]):
        return "no successful run of"
    if not runs["usable"].any():
        status = runs["status"].min()
        return f"{status}:" if status != "verified" else "no runs without a fault of"
    return ""
