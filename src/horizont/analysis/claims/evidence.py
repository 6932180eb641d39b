"""The observations that claims are tested with, found by setting and paired by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import NamedTuple

import numpy as np

from horizont.analysis.claims.observations import (
    EvidenceLevel,
    Observation,
    Setting,
    evidence_level,
    observe,
)
from horizont.analysis.claims.quantities import (
    NETWORK_DIFFERENCE,
    PROJECTED,
    is_learning,
    quantity_label,
)
from horizont.analysis.claims.rules import Check, Contrast, CurvePoint, Side
from horizont.analysis.runs import CertificateStatus
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.statistics.intervals import Estimate, interval_at_level, paired_ratio

#: How the reasons begin for which runs decide nothing, the last one that a run can have first.
_REASON_STARTS = ("the processes compete", "all runs were disturbed", "not ", "no runs without")


#: System, setting, and whether the factor is in the numerator.
Factor = tuple[Side, Setting, bool]


class Comparison(NamedTuple):
    """A ratio of products of a quantity, or the quantity itself.

    Attributes
    ----------
    scale
        A factor of the numerator.
    """

    conditions: str
    factors: Sequence[Factor]
    scale: float = 1.0


class Measured(NamedTuple):
    """An estimate and what it comes from; `records` are their names."""

    estimate: Estimate
    conditions: str
    evidence: EvidenceLevel
    records: list[str]


class Evidence:
    """The available runs, and predictions of a model for settings without runs.

    All of them are observations: unusable ones are the reason why something is not testable. Two
    usable runs of the same system, setting and block are a `UserError`.
    """

    def __init__(
        self,
        records: Sequence[Record],
        certificates: Mapping[str, CertificateStatus],
        predictions: Sequence[Observation] = (),
    ) -> None:
        runs = [observe(record, certificates) for record in records]
        self.observations = [*runs, *predictions]
        found: dict[tuple[object, ...], Observation] = {}
        for item in self.observations:
            if not item.not_learned:
                key = (item.system, item.setting, item.arrangement, item.block, item.record is None)
                if key in found:
                    names = [*found[key].records, *item.records]
                    allowed = f"one run of {item.system} in block {item.block} of a setting"
                    raise UserError("records", names, allowed)
                found[key] = item

    def usable(self, quantity: str, side: Side, workload: str) -> list[Observation]:
        """List the observations of a system on a workload that may decide about a quantity."""
        learning = is_learning(quantity)
        return [
            item
            for item in self.observations
            if item.system == side.system
            and item.setting.workload == workload
            and not (item.not_learned if learning else item.not_timed)
            and item.arrangement.rank(side, item.setting.workers) is not None
        ]

    def settings(self, check: Check, side: Side, point: CurvePoint) -> list[Setting]:
        """List the settings in which a system was run, in order of preference.

        Experiments have the order of the rule, or any if it names none; within one, more workers
        precede fewer, then larger batches, then faster links.
        """
        items = self.usable(check.quantity, side, point.workload)
        if isinstance(point.workers, str):  # the extreme one of the records
            items = [item for item in items if item.record is not None]
        found = {item.setting for item in items}
        order = check.experiments or tuple(sorted({s.experiment for s in found}))
        found = {s for s in found if s.experiment in order and _matches(check, s)}
        for name, count in (("workers", point.workers), ("batch", point.batch)):
            if count is not None:
                found = _at_count(found, name, count)
        return sorted(
            (s for s in found if s.workers >= point.min_workers),
            key=lambda s: (
                order.index(s.experiment),
                -s.workers,
                -s.batch,
                -(s.link.rate_mbit or 0),
                repr(s),
            ),
        )

    def by_block(
        self, quantity: str, side: Side, setting: Setting
    ) -> dict[int, tuple[Observation, float]]:
        """Return the observations of a system in a setting that have a quantity, with its values.

        Of several arrangements the one that the rule prefers is taken; measured values precede
        predicted ones.
        """
        ranked: dict[tuple[object, ...], dict[int, tuple[Observation, float]]] = {}
        items: Iterable[Observation] = self.usable(quantity, side, setting.workload)
        if quantity == NETWORK_DIFFERENCE:
            items = map(self._without_process, items)
        for item in items:
            if item.setting == setting and not isnan(value := item.read(quantity)):
                rank = item.record is None, item.arrangement.rank(side, setting.workers) or ()
                ranked.setdefault(rank, {})[item.block] = item, value
        return ranked[min(ranked)] if ranked else {}

    def _without_process(self, item: Observation) -> Observation:
        """Subtract the step of one process in the same block; NaN if that is not shorter."""
        framework = item.system.partition("/")[0]
        side = Side(system=f"{framework}/local")
        found = self.by_block("step_s", side, item.setting._replace(workers=1)).get(item.block)
        if found is None or found[0].machine != item.machine:
            return replace(item, read=lambda _: nan)
        single, step_s = found
        difference_s = item.read(NETWORK_DIFFERENCE) - step_s
        value = difference_s if difference_s > 0 else nan
        return replace(item, read=lambda _: value, records=(*item.records, *single.records))

    def measure(self, check: Check, comparison: Comparison) -> Measured | None:
        """Estimate a comparison over the blocks that have all of its factors; None without one.

        In a block the speeds of the machines must cancel out.
        """
        factors = comparison.factors
        columns = [self.by_block(check.quantity, side, setting) for side, setting, _ in factors]
        blocks = sorted(set.intersection(*(set(column) for column in columns)))
        if not is_learning(check.quantity) and len(factors) > 1:
            blocks = [
                block
                for block in blocks
                if _is_balanced([column[block][0].machine for column in columns], factors)
            ]
        if not blocks:
            return None
        values = np.array([[column[block][1] for column in columns] for block in blocks])
        is_numerator = np.array([in_numerator for _, _, in_numerator in factors])
        numerator = comparison.scale * values[:, is_numerator].prod(axis=1)
        # All quantities are positive; without a denominator it is one.
        denominator = values[:, ~is_numerator].prod(axis=1)
        estimate = paired_ratio(numerator, denominator, interval_at_level)
        items = [column[block][0] for column in columns for block in blocks]
        return self.measured(check, estimate, comparison.conditions, items)

    def measured(
        self, check: Check, estimate: Estimate, conditions: str, items: Sequence[Observation]
    ) -> Measured:
        """Describe what an estimate comes from: arrangements, evidence level, records."""
        arrangements = dict.fromkeys(item.arrangement.description(item.system) for item in items)
        of_times = not is_learning(check.quantity)
        if not of_times and check.initial_limit is None:
            arrangements["the same initial weights in all frameworks"] = None
        levels = {evidence_level(item, check.publication, of_times=of_times) for item in items}
        return Measured(
            estimate,
            "; ".join([conditions, *filter(None, arrangements)]),
            "D" if check.quantity in PROJECTED else max(levels),
            list(dict.fromkeys(name for item in items for name in item.records)),
        )

    def missing_reason(
        self, check: Check, workload: str, sides: Sequence[Side], *, paired: bool = False
    ) -> str:
        """Return why something cannot be tested with these runs.

        If their settings are `paired`, the reason is in their blocks.
        """
        is_operator = check.quantity.startswith("operator:")
        records = [item.record for item in self.observations if item.record is not None]
        if is_operator and not any(record.is_profiled for record in records):
            return "the records contain no operator profile"
        where = f" on {workload}"
        if check.experiments:
            names = " or ".join(name.replace("_", " ") for name in check.experiments)
            where += f" in the experiment {names}"
        for side in sides:
            if reason := self._missing_system(check, workload, side):
                return reason + where
        wanted = quantity_label(check.quantity) + (f", batch {check.batch}" if check.batch else "")
        listed = " and ".join(dict.fromkeys(side.label() for side in sides))
        if paired:
            wanted += ", in one block and on one type of machine"
        return f"{listed} on {workload}: no runs match the rule: {wanted}"

    def _missing_system(self, check: Check, workload: str, side: Side) -> str:
        """Return what is missing of a system: runs, usable ones, or those of its arrangement."""
        found = [
            item
            for item in self.observations
            if item.system == side.system
            and item.setting.workload == workload
            and item.setting.experiment in (check.experiments or (item.setting.experiment,))
        ]
        if not found:
            return f"no runs of {side.system}"
        learning = is_learning(check.quantity)
        reasons = {item.not_learned if learning else item.not_timed for item in found}
        if "" not in reasons:
            return f"{min(sorted(reasons), key=_reason_rank)} {side.system}"
        ranks = [item.arrangement.rank(side, item.setting.workers) for item in found]
        return "" if any(rank is not None for rank in ranks) else f"no runs of {side.label()}"

    def paired_points(
        self, check: Contrast, points: tuple[CurvePoint, CurvePoint], workload: str
    ) -> list[tuple[Setting, Setting]]:
        """Pair the settings of two points that differ only in what the rule varies.

        Another workload has a learning rate of its own, and its own largest batch. What is learned
        does not depend on the experiment, and the number of steps often does.
        """
        start, end = (
            point if point.workload else point.model_copy(update={"workload": workload})
            for point in points
        )
        pairs = []
        for late in self.settings(check, check.over, end):
            for early in self.settings(check, check.over, start):
                moved = early._replace(
                    workload=late.workload,
                    workers=early.workers if start.workers == end.workers else late.workers,
                    batch=early.batch if start.batch == end.batch else late.batch,
                )
                if early.workload != late.workload:
                    moved = moved._replace(learning_rate=late.learning_rate)
                    if isinstance(end.batch, str):
                        moved = moved._replace(batch=late.batch)
                if is_learning(check.quantity):
                    moved = moved._replace(experiment=late.experiment)
                if early != late == moved:
                    pairs.append((early, late))
        return pairs


def _is_balanced(machines: Sequence[str], factors: Sequence[Factor]) -> bool:
    """Whether each machine is above the line as often as below it."""
    above, below = Counter[str](), Counter[str]()
    for machine, (_, _, in_numerator) in zip(machines, factors, strict=True):
        (above if in_numerator else below)[machine] += 1
    return above == below


def _at_count(found: set[Setting], name: str, count: int | str) -> set[Setting]:
    """Select settings by a count; ``min`` and ``max`` are those of their experiment."""
    if not isinstance(count, str):
        return {setting for setting in found if getattr(setting, name) == count}
    choose = max if count == "max" else min
    extreme = {
        s.experiment: choose(getattr(o, name) for o in found if o.experiment == s.experiment)
        for s in found
    }
    return {s for s in found if getattr(s, name) == extreme[s.experiment]}


def _reason_rank(reason: str) -> int:
    starts = (rank for rank, start in enumerate(_REASON_STARTS) if reason.startswith(start))
    return next(starts, len(_REASON_STARTS))


def _matches(check: Check, setting: Setting) -> bool:
    """Whether a setting has what a rule demands; initial weights are the network's by default."""
    wanted = {name: getattr(check, name) for name in ("batch", "workers", "learning_rate")}
    return setting.initial_limit == check.initial_limit and all(
        value is None or getattr(setting, name) == value for name, value in wanted.items()
    )
