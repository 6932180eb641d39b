"""The difference between two systems and its parts, and which of them stands out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from horizont.analysis.operators import OUTSIDE_OPERATORS
from horizont.analysis.steps import (
    GROUP_SEPARATOR,
    comparable_phase_groups,
    group_label,
    is_remote,
    measured_phases,
    phases_by_run,
)
from horizont.analysis.verdicts import Pair, pairs
from horizont.config.system import parse_system
from horizont.records.record import Record
from horizont.statistics.intervals import mean_interval

#: A cause stands out if it makes this much of all that its siblings add and take away.
DOMINANCE = 0.5

#: With fewer blocks no difference is certain.
MIN_SIGNIFICANT_BLOCKS = 3


@dataclass(frozen=True)
class Difference:
    """By how much longer a part of a step takes in B than in A.

    Attributes
    ----------
    level
        ``step``, ``kind``, ``phase``, ``class`` or ``operator``.
    within
        The part that this one is a part of.
    a_s, b_s
        Mean seconds of a worker's step; NaN where a system has no such part.
    difference_s
        b_s - a_s. The differences of all parts within one add up to its own.
    low_s, high_s
        The interval of the difference over the blocks; NaN if it rests on fewer than two.
    records
        What the numbers rest on, where it is not the runs of the pair: records of profiles.
    """

    level: str
    parent: str
    part: str
    a_s: float
    b_s: float
    difference_s: float
    low_s: float = math.nan
    high_s: float = math.nan
    blocks: int = 0
    records: tuple[str, ...] = ()

    @property
    def is_significant(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.blocks >= MIN_SIGNIFICANT_BLOCKS and (self.low_s > 0 or self.high_s < 0)


def difference_over_blocks(
    level: str, parent: str, part: str, a_s: ArrayLike, b_s: ArrayLike
) -> Difference:
    """Compare a part block by block.

    Parameters
    ----------
    a_s, b_s
        Seconds, one number for each block, none of them NaN.
    """
    first, second = np.asarray(a_s, dtype=np.float64), np.asarray(b_s, dtype=np.float64)
    apart = mean_interval(second - first)
    return Difference(
        level, parent, part, float(first.mean()), float(second.mean()), apart.value,
        apart.low, apart.high, apart.n,
    )  # fmt: skip


def dominant_part(whole: Difference, parts: Sequence[Difference]) -> Difference | None:
    """Find the part that explains most of a difference, if one does.

    It must point the same way as the whole, be certain if it was measured in blocks, and make at
    least half of all that the parts add and take away: where much is gained here and lost there
    no single cause stands out.
    """
    sign = math.copysign(1.0, whole.difference_s)
    moved = sum(abs(part.difference_s) for part in parts)
    leading = max(parts, key=lambda part: sign * part.difference_s, default=None)
    if leading is None or sign * leading.difference_s <= 0:
        return None
    uncertain = leading.blocks > 0 and not leading.is_significant
    if uncertain or sign * leading.difference_s < DOMINANCE * moved:
        return None
    return leading


def are_profiled(operators: pd.DataFrame | None, systems: Iterable[str]) -> bool:
    """Tell whether there is a profile of all of some systems."""
    return operators is not None and set(systems) <= set(operators["system"])


def has_phases(operators: pd.DataFrame, systems: Iterable[str]) -> bool:
    """Tell whether the phase of every operator is known."""
    return bool(operators.loc[operators["system"].isin(list(systems)), "phase"].notna().all())


def differences_by_class(
    operators: pd.DataFrame, a: str, b: str, whole: Difference, phases: Iterable[str] | None
) -> list[Difference]:
    """Take a part of a step apart by operator class.

    Parameters
    ----------
    operators
        A row an operator: ``system, operator_class, operator, phase, self_s`` and, if it is
        there, ``record``, the name of the profile's record.
    phases
        Those that the part consists of; nothing takes all operators.

    Returns
    -------
    list of Difference
        The classes, and `OUTSIDE`: the framework's own work between them, and what the profile
        and the instrumented steps differ by. They add up to the part.
    """
    shown = operators if phases is None else operators[operators["phase"].isin(list(phases))]
    classes = _differences_by(shown, a, b, "operator_class", whole.part)
    left_a = whole.a_s - sum(_zero_if_nan(each.a_s) for each in classes)
    left_b = whole.b_s - sum(_zero_if_nan(each.b_s) for each in classes)
    rest = Difference("class", whole.part, OUTSIDE_OPERATORS, left_a, left_b, left_b - left_a)
    return [*classes, rest]


def differences_by_operator(
    operators: pd.DataFrame, a: str, b: str, whole: Difference, phases: Iterable[str] | None
) -> list[Difference]:
    """Take a class apart by operator, each under the name that its framework has for it."""
    shown = operators if phases is None else operators[operators["phase"].isin(list(phases))]
    own = shown[shown["operator_class"] == whole.part]
    return _differences_by(own, a, b, "operator", whole.part)


def dominant_operator(
    whole: Difference, parts: list[Difference], a: str, b: str
) -> Difference | None:
    """Find the operator that a class is slow by, if one stands out.

    Two frameworks have other operators, so a difference is not one of an operator: there it is
    the one that makes at least half of the class in the slower system.
    """
    if parse_system(a).framework == parse_system(b).framework:
        return dominant_part(whole, parts)
    slower = [(each.b_s if whole.difference_s > 0 else each.a_s, each) for each in parts]
    spent = [(spent_s, each) for spent_s, each in slower if spent_s > 0]  # false for NaN
    longest = max(spent, key=lambda pair: pair[0], default=None)
    if longest is None or longest[0] < DOMINANCE * sum(spent_s for spent_s, _ in spent):
        return None
    return longest[1]


def _differences_by(
    operators: pd.DataFrame, a: str, b: str, column: str, parent: str
) -> list[Difference]:
    """Compare the seconds of a step by the values of a column, the largest difference first."""
    level = {"operator_class": "class", "operator": "operator"}[column]
    sums = {
        system: operators[operators["system"] == system].groupby(column)["self_s"].sum()
        for system in (a, b)
    }
    names = dict.fromkeys([*sums[a].index, *sums[b].index])
    found = []
    for name in names:
        a_s, b_s = float(sums[a].get(name, math.nan)), float(sums[b].get(name, math.nan))
        apart = _zero_if_nan(b_s) - _zero_if_nan(a_s)
        own = operators[(operators[column] == name) & operators["system"].isin([a, b])]
        rests_on = tuple(dict.fromkeys(own["record"])) if "record" in own else ()
        found.append(Difference(level, parent, str(name), a_s, b_s, apart, records=rests_on))
    return sorted(found, key=lambda each: -abs(each.difference_s))


def _zero_if_nan(value_s: float) -> float:
    """Count an operator that a system does not have as no time spent."""
    return 0.0 if math.isnan(value_s) else value_s


LOCAL = "local"


@dataclass(frozen=True)
class Drilldown:
    """Where the steps of two systems differ.

    Attributes
    ----------
    bare
        The difference of the bare steps; None if no block has both systems.
    parts
        The instrumented step and, below it, all that was looked into.
    path
        The parts that stand out, one inside the other; the last is the cause. Empty if none
        does.
    end
        Why the search ended there; empty if it came down to an operator.
    records
        The names of the records that the differences rest on.
    """

    pair: Pair
    timed: Difference | None
    parts: tuple[Difference, ...]
    path: tuple[Difference, ...]
    stop_reason: str
    records: tuple[str, ...] = field(default=())

    @property
    def step(self) -> Difference | None:
        """The whole instrumented step."""
        return self.parts[0] if self.parts else None

    @property
    def is_explained(self) -> bool:
        """Whether there is a certain difference of which parts can be shares."""
        return bool(self.timed and self.step and not _reason_not_to_explain(self.timed, self.step))

    def children(self, part: str) -> list[Difference]:
        """List the parts of a part."""
        return [each for each in self.parts if each.parent == part]

    def table(self) -> pd.DataFrame:
        """Write the difference as a table.

        Returns
        -------
        pandas.DataFrame
            A row a part: ``level``, ``parent``, ``part``, ``a_s``, ``b_s``, ``difference_s`` =
            b - a with ``low_s`` and ``high_s``, ``fraction`` of the difference of the whole step,
            and whether it is ``is_dominant``.
        """
        columns = ["level", "parent", "part", "a_s", "b_s", "difference_s", "low_s", "high_s"]
        rows = [{name: getattr(each, name) for name in columns} for each in self.parts]
        frame = pd.DataFrame(rows, columns=columns)
        whole = self.step.difference_s if self.step else 0.0
        frame["fraction"] = frame["difference_s"] / whole if whole else float("nan")
        frame["is_dominant"] = [each in self.path for each in self.parts]
        return frame


def drilldowns(records: Sequence[Record], operators: pd.DataFrame | None = None) -> list[Drilldown]:
    """Take the difference between each two systems of an experiment apart.

    Parameters
    ----------
    operators
        A row an operator of a profiled system: ``system``, ``operator_class``, ``operator``,
        ``phase`` (or nothing), ``self_s`` in seconds of a worker's step and, if it is there,
        ``record``, where that is not the run of the pair; as of `horizont.analysis.operators`.
        None, or no row, if nothing was profiled.
    """
    seen = phases_by_run(records)
    return [drill_down(pair, seen, operators) for pair in pairs(records)]


def drill_down(
    pair: Pair, run_phases: pd.DataFrame, operators: pd.DataFrame | None = None
) -> Drilldown:
    """Take the difference between two systems apart.

    Parameters
    ----------
    seen
        As of `horizont.analysis.run_parts`.
    """
    together = pair.paired_runs()
    a = run_phases.loc[[first.folder.name for first, _ in together]].reset_index(drop=True)
    b = run_phases.loc[[second.folder.name for _, second in together]].reset_index(drop=True)
    rests_on = tuple(record.folder.name for both in together for record in both)
    if not together:
        return Drilldown(pair, None, (), (), "no block has a run of both")
    bare = difference_over_blocks("timed", "", "bare step", a["timed_s"], b["timed_s"])
    groups = comparable_phase_groups(pair.a, measured_phases(a), pair.b, measured_phases(b))
    if not groups:
        end = "the steps of one of them were not taken apart"
        return Drilldown(pair, bare, (), (), end, rests_on)
    search = _Search(pair, groups, operators)
    search.run(bare, a, b)
    return Drilldown(
        pair, bare, tuple(search.parts), tuple(search.path), search.stop_reason, rests_on
    )


@dataclass
class _Search:
    """The way down, as far as it goes."""

    pair: Pair
    groups: list[tuple[str, ...]]
    operators: pd.DataFrame | None
    parts: list[Difference] = field(default_factory=list)
    path: list[Difference] = field(default_factory=list)
    stop_reason: str = ""

    def run(self, timed: Difference, a: pd.DataFrame, b: pd.DataFrame) -> None:
        """Go down as far as one part stands out."""
        every = [part for group in self.groups for part in group]
        step = difference_over_blocks(
            "step", "", "step", a[every].sum(axis=1), b[every].sum(axis=1)
        )
        kinds, phases = self._levels(a, b)
        self.parts = [step, *kinds, *phases]
        self.stop_reason = _reason_not_to_explain(timed, step)
        if self.stop_reason:
            return
        cause = self._follow(step, kinds)
        if cause is None or cause.part != LOCAL:
            return
        phase = self._follow(cause, phases)
        self._descend_into_operators(cause, phase)

    def _levels(self, a: pd.DataFrame, b: pd.DataFrame) -> tuple[list[Difference], ...]:
        """Compare what has to do with other processes, and the phases of local work."""

        def compared(level: str, within: str, part: str, group: Sequence[str]) -> Difference:
            columns = list(group)
            return difference_over_blocks(
                level, within, part, a[columns].sum(axis=1), b[columns].sum(axis=1)
            )

        remote = [group for group in self.groups if is_remote(group)]
        own = [group for group in self.groups if not is_remote(group)]
        kinds = [compared("kind", "step", group_label(group), group) for group in remote]
        kinds.append(compared("kind", "step", LOCAL, [part for group in own for part in group]))
        return kinds, [compared("phase", LOCAL, group_label(group), group) for group in own]

    def _follow(self, whole: Difference, parts: list[Difference]) -> Difference | None:
        """Name the part that stands out."""
        found = dominant_part(whole, parts)
        if found is None:
            self.stop_reason = f"inside {_part_label(whole)} no part stands out"
        elif found.part == OUTSIDE_OPERATORS:
            self.stop_reason = f"the operators do not explain {_part_label(whole)}"
            found = None
        else:
            self.path.append(found)
            self.stop_reason = "nothing finer was measured"
        return found

    def _descend_into_operators(self, local: Difference, phase: Difference | None) -> None:
        """Go on with the operators of the phase, or of all local work if phases are not known."""
        names = (self.pair.a, self.pair.b)
        if self.operators is None or not are_profiled(self.operators, names):
            if phase is not None:
                self.stop_reason = "no profile of operators is there"
            return
        inside: Sequence[str] | None = phase.part.split(GROUP_SEPARATOR) if phase else None
        if phase is None or not has_phases(self.operators, names):
            phase, inside = local, None
        classes = differences_by_class(self.operators, *names, phase, inside)
        self.parts += classes
        kind = self._follow(phase, classes)
        if kind is None:
            return
        operators = differences_by_operator(self.operators, *names, kind, inside)
        self.parts += operators
        leading = dominant_operator(kind, operators, *names)
        if leading is None:
            self.stop_reason = f"inside {kind.part} no operator stands out"
        else:
            self.path.append(leading)
            self.stop_reason = ""


def _part_label(part: Difference) -> str:
    return f"{part.part} work" if part.part == LOCAL else part.part


def _reason_not_to_explain(timed: Difference, step: Difference) -> str:
    """Tell why a difference is not to be taken apart; nothing if it is."""
    if timed.difference_s * step.difference_s <= 0:
        return "the instrumented steps do not show the difference of the bare ones"
    if not step.is_significant:
        return "the difference of the instrumented steps is not certain"
    return ""
