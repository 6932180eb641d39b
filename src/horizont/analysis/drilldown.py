"""Attribution of the difference between two systems to phase, operator class and operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, nan
from operator import attrgetter

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from horizont.analysis.operators import OUTSIDE_OPERATORS
from horizont.analysis.steps import (
    GROUP_SEPARATOR,
    REMOTE_PHASES,
    comparable_phase_groups,
    means_by_run,
    measured_phases,
)
from horizont.analysis.verdicts import Pair, pairs
from horizont.config.system import parse_system
from horizont.records.record import Record
from horizont.statistics.intervals import mean_interval

#: The part of all changes among its siblings from which a cause is dominant.
DOMINANCE = 0.5

#: With fewer blocks no difference is significant.
MIN_SIGNIFICANT_BLOCKS = 3

#: The part of a step without the remote phases.
LOCAL = "local"

_COLUMNS = ["level", "parent", "part", "a_s", "b_s", "difference_s", "low_s", "high_s"]


@dataclass(frozen=True)
class Difference:
    """The difference of a part of the step between systems A and B.

    Attributes
    ----------
    level
        ``timed``, ``step``, ``kind``, ``phase``, ``class`` or ``operator``.
    parent
        The part that contains this one.
    a_s, b_s
        Mean seconds of a worker's step; NaN where a system has no such part.
    difference_s
        b_s - a_s. The differences of all children of a parent add up to its own.
    low_s, high_s
        The interval of the difference over the blocks; NaN with fewer than two.
    records
        The source of the numbers where it is not the runs of the pair: records of profiles.
    """

    level: str
    parent: str
    part: str
    a_s: float
    b_s: float
    difference_s: float
    low_s: float = nan
    high_s: float = nan
    blocks: int = 0
    records: tuple[str, ...] = ()

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.blocks >= MIN_SIGNIFICANT_BLOCKS and (self.low_s > 0 or self.high_s < 0)


def difference_over_blocks(
    level: str, parent: str, part: str, a_s: ArrayLike, b_s: ArrayLike
) -> Difference:
    """Estimate the difference of a part from its seconds in each block, none of them NaN."""
    a, b = np.asarray(a_s, dtype=np.float64), np.asarray(b_s, dtype=np.float64)
    mean = mean_interval(b - a)
    interval = (mean.value, mean.low, mean.high, mean.n)
    return Difference(level, parent, part, float(a.mean()), float(b.mean()), *interval)


def dominant_part(whole: Difference, parts: Sequence[Difference]) -> Difference | None:
    """Return the part that accounts for at least half of all changes and is significant, if any.

    It must have the sign of the whole. The changes are summed as absolute values: where much is
    gained in one part and lost in another, no single cause is dominant.
    """
    sign = copysign(1.0, whole.difference_s)
    changes_s = sum(abs(part.difference_s) for part in parts)
    largest = max(parts, key=lambda part: sign * part.difference_s, default=None)
    if largest is None or sign * largest.difference_s <= 0:
        return None
    insignificant = largest.blocks > 0 and not largest.is_significant
    if insignificant or sign * largest.difference_s < DOMINANCE * changes_s:
        return None
    return largest


@dataclass
class Drilldown:
    """The attribution of the difference between the steps of two systems.

    Attributes
    ----------
    timed
        The difference of the timed steps; None if no block has both systems.
    parts
        The instrumented step and all parts below it that were compared.
    path
        The dominant parts, each a child of the one before; the last is the cause.
    stop_reason
        Why the search stopped there; empty if it reached an operator.
    records
        The names of the records of the differences.
    """

    pair: Pair
    timed: Difference | None
    parts: list[Difference]
    path: list[Difference]
    stop_reason: str
    records: tuple[str, ...] = ()

    @property
    def step(self) -> Difference | None:
        """The whole instrumented step."""
        return self.parts[0] if self.parts else None

    @property
    def is_explained(self) -> bool:
        """Whether there is a significant difference that can be split into parts."""
        return bool(self.timed and self.step and not _reason_not_to_split(self.timed, self.step))

    def children(self, parent: str) -> list[Difference]:
        """List the parts of a part."""
        return [part for part in self.parts if part.parent == parent]

    def table(self) -> pd.DataFrame:
        """Return one row per part: the fields of `Difference`, ``fraction``, ``is_dominant``.

        ``fraction`` is that of the difference of the whole step.
        """
        frame = pd.DataFrame(self.parts, columns=_COLUMNS)
        whole_s = self.step.difference_s if self.step else 0.0
        frame["fraction"] = frame["difference_s"] / whole_s if whole_s else nan
        frame["is_dominant"] = [part in self.path for part in self.parts]
        return frame


def drilldowns(records: Sequence[Record], operators: pd.DataFrame | None = None) -> list[Drilldown]:
    """Attribute the differences between each two systems of an experiment.

    The operators of profiled systems are a table with a row each: ``system``, ``operator_class``,
    ``operator``, ``phase`` (or None), ``self_s`` in seconds of a worker's step and optionally
    ``record``, where that is not the run of the pair; see
    :func:`horizont.analysis.operators.operator_table`.
    """
    run_means = means_by_run(records)
    return [drill_down(pair, run_means, operators) for pair in pairs(records)]


def drill_down(
    pair: Pair, run_means: pd.DataFrame, operators: pd.DataFrame | None = None
) -> Drilldown:
    """Attribute the difference between two systems, with the `means_by_run` of their runs."""
    runs = pair.paired_runs()
    if not runs:
        return Drilldown(pair, None, [], [], "no block has a run of both")
    names = [[both[side].folder.name for both in runs] for side in (0, 1)]
    a, b = (run_means.loc[side].reset_index(drop=True) for side in names)
    records = tuple(record.folder.name for both in runs for record in both)
    timed = difference_over_blocks("timed", "", "timed step", a["timed_s"], b["timed_s"])
    groups = comparable_phase_groups(pair.a, measured_phases(a), pair.b, measured_phases(b))
    if not groups:
        reason = "the phases of one system were not measured"
        return Drilldown(pair, timed, [], [], reason, records)

    def compare(level: str, parent: str, group: Sequence[str], part: str = "") -> Difference:
        a_s, b_s = (side[list(group)].sum(axis=1) for side in (a, b))
        return difference_over_blocks(level, parent, part or GROUP_SEPARATOR.join(group), a_s, b_s)

    local = [group for group in groups if REMOTE_PHASES.isdisjoint(group)]
    step = compare("step", "", [phase for group in groups for phase in group], "step")
    kinds = [compare("kind", "step", group) for group in groups if group not in local]
    kinds.append(compare("kind", "step", [phase for group in local for phase in group], LOCAL))
    phases = [compare("phase", LOCAL, group) for group in local]
    reason = _reason_not_to_split(timed, step)
    drilldown = Drilldown(pair, timed, [step, *kinds, *phases], [], reason, records)
    kind = None if reason else _follow(drilldown, step, kinds)
    if kind is not None and kind.part == LOCAL:
        phase = _follow(drilldown, kind, phases)
        if operators is not None and {pair.a, pair.b} <= set(operators["system"]):
            _descend_into_operators(drilldown, operators, kind, phase)
        elif phase is not None:
            drilldown.stop_reason = "there is no operator profile"
    return drilldown


def _follow(drilldown: Drilldown, whole: Difference, parts: list[Difference]) -> Difference | None:
    """Append the dominant part to the path and return it, if there is one."""
    label = f"{LOCAL} work" if whole.part == LOCAL else whole.part
    part = dominant_part(whole, parts)
    if part is None:
        drilldown.stop_reason = f"within {_within(whole)} no part is dominant"
    elif part.part == OUTSIDE_OPERATORS:
        drilldown.stop_reason = f"the operators do not explain {label}"
        part = None
    else:
        drilldown.path.append(part)
        drilldown.stop_reason = "nothing finer was measured"
    return part


def _within(whole: Difference) -> str:
    """Return what a difference is of, after the word `within`."""
    if whole.part == LOCAL:
        return f"{LOCAL} work"
    return "the step" if whole.level == "step" else f"the phase {whole.part}"


def _descend_into_operators(
    drilldown: Drilldown, operators: pd.DataFrame, local: Difference, phase: Difference | None
) -> None:
    """Continue with the operators of a phase, or of all local work if phases are unknown."""
    pair, whole = drilldown.pair, local
    operators = operators[operators["system"].isin([pair.a, pair.b])]
    if phase is not None and operators["phase"].notna().all():
        operators = operators[operators["phase"].isin(phase.part.split(GROUP_SEPARATOR))]
        whole = phase
    classes = _differences_by("class", operators, pair, whole.part)
    # The framework's own work between operators, and the difference between profiled and
    # instrumented steps: all parts add up to the whole.
    a_s = whole.a_s - float(np.nansum([part.a_s for part in classes]))
    b_s = whole.b_s - float(np.nansum([part.b_s for part in classes]))
    classes.append(Difference("class", whole.part, OUTSIDE_OPERATORS, a_s, b_s, b_s - a_s))
    drilldown.parts += classes
    operator_class = _follow(drilldown, whole, classes)
    if operator_class is None:
        return
    operators = operators[operators["operator_class"] == operator_class.part]
    differences = _differences_by("operator", operators, pair, operator_class.part)
    drilldown.parts += differences
    dominant = _dominant_operator(operator_class, differences, pair)
    drilldown.stop_reason = f"within the class {operator_class.part} no operator is dominant"
    if dominant is not None:
        drilldown.path.append(dominant)
        drilldown.stop_reason = ""


def _differences_by(
    level: str, operators: pd.DataFrame, pair: Pair, parent: str
) -> list[Difference]:
    """Compare the seconds of a step by class or by operator, the largest difference first."""
    column = {"class": "operator_class", "operator": "operator"}[level]
    sums = operators.pivot_table("self_s", column, "system", "sum")
    sums = sums.reindex(columns=[pair.a, pair.b])
    sums["difference_s"] = sums[pair.b].fillna(0.0) - sums[pair.a].fillna(0.0)
    sums = sums.sort_values("difference_s", key=lambda column: -column.abs(), kind="stable")
    records = {}
    if "record" in operators:
        records = operators.groupby(column)["record"].unique().map(tuple).to_dict()
    return [
        Difference(level, parent, str(name), a_s, b_s, difference_s, records=records.get(name, ()))
        for name, a_s, b_s, difference_s in sums.itertuples()
    ]


def _dominant_operator(whole: Difference, parts: list[Difference], pair: Pair) -> Difference | None:
    """Return the operator that makes a class slow, if one is dominant.

    Two frameworks have different operators, which cannot be paired: there it is the one with at
    least half of the class in the slower system.
    """
    if parse_system(pair.a).framework == parse_system(pair.b).framework:
        return dominant_part(whole, parts)
    slower = attrgetter("b_s" if whole.difference_s > 0 else "a_s")
    spent = [part for part in parts if slower(part) > 0]  # false for NaN
    longest = max(spent, key=slower, default=None)
    is_dominant = longest and slower(longest) >= DOMINANCE * sum(map(slower, spent))
    return longest if is_dominant else None


def _reason_not_to_split(timed: Difference, step: Difference) -> str:
    """Return why a difference must not be split; empty if it may be."""
    if timed.difference_s * step.difference_s <= 0:
        return "the instrumented steps do not show the difference of the timed ones"
    if not step.is_significant:
        return "the difference of the instrumented steps is not significant"
    return ""
