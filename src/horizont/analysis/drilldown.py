"""Why one system is faster: the difference of a step, taken apart until one cause is named.

The step is taken apart into communication, waiting and local work, local work into its phases, a
phase into classes of operators, and a class into operators. At each level the parts add up to
what they are parts of; the search goes on inside the part that stands out and ends where none
does, or where nothing more was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from horizont.analysis.difference import Difference, over_blocks, standing_out
from horizont.analysis.operatorlevels import (
    by_class,
    by_operator,
    has_phases,
    leading_operator,
    profiled,
)
from horizont.analysis.operators import OUTSIDE
from horizont.analysis.parts import AND, common_parts, is_remote, known_parts, named
from horizont.analysis.phases import run_parts
from horizont.analysis.verdicts import Pair, pairs
from horizont.records import Record

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
    bare: Difference | None
    parts: tuple[Difference, ...]
    path: tuple[Difference, ...]
    end: str
    records: tuple[str, ...] = field(default=())

    @property
    def step(self) -> Difference | None:
        """The whole instrumented step."""
        return self.parts[0] if self.parts else None

    @property
    def is_explained(self) -> bool:
        """Whether there is a certain difference of which parts can be shares."""
        return bool(self.bare and self.step and not _nothing_to_explain(self.bare, self.step))

    def inside(self, part: str) -> list[Difference]:
        """List the parts of a part."""
        return [each for each in self.parts if each.within == part]

    def table(self) -> pd.DataFrame:
        """Write the difference as a table.

        Returns
        -------
        pandas.DataFrame
            A row a part: ``level``, ``within``, ``part``, ``a_s``, ``b_s``, ``difference_s`` =
            b - a with ``low_s`` and ``high_s``, ``share`` of the difference of the whole step,
            and whether it is ``named``.
        """
        columns = ["level", "within", "part", "a_s", "b_s", "difference_s", "low_s", "high_s"]
        rows = [{name: getattr(each, name) for name in columns} for each in self.parts]
        frame = pd.DataFrame(rows, columns=columns)
        whole = self.step.difference_s if self.step else 0.0
        frame["share"] = frame["difference_s"] / whole if whole else float("nan")
        frame["named"] = [each in self.path for each in self.parts]
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
    seen = run_parts(records)
    return [drill(pair, seen, operators) for pair in pairs(records)]


def drill(pair: Pair, seen: pd.DataFrame, operators: pd.DataFrame | None = None) -> Drilldown:
    """Take the difference between two systems apart.

    Parameters
    ----------
    seen
        As of `horizont.analysis.run_parts`.
    """
    together = pair.together()
    a = seen.loc[[first.folder.name for first, _ in together]].reset_index(drop=True)
    b = seen.loc[[second.folder.name for _, second in together]].reset_index(drop=True)
    rests_on = tuple(record.folder.name for both in together for record in both)
    if not together:
        return Drilldown(pair, None, (), (), "no block has a run of both")
    bare = over_blocks("bare", "", "bare step", a["bare_s"], b["bare_s"])
    groups = common_parts(pair.a, known_parts(a), pair.b, known_parts(b))
    if not groups:
        end = "the steps of one of them were not taken apart"
        return Drilldown(pair, bare, (), (), end, rests_on)
    search = _Search(pair, groups, operators)
    search.run(bare, a, b)
    return Drilldown(pair, bare, tuple(search.parts), tuple(search.path), search.end, rests_on)


@dataclass
class _Search:
    """The way down, as far as it goes."""

    pair: Pair
    groups: list[tuple[str, ...]]
    operators: pd.DataFrame | None
    parts: list[Difference] = field(default_factory=list)
    path: list[Difference] = field(default_factory=list)
    end: str = ""

    def run(self, bare: Difference, a: pd.DataFrame, b: pd.DataFrame) -> None:
        """Go down as far as one part stands out."""
        every = [part for group in self.groups for part in group]
        step = over_blocks("step", "", "step", a[every].sum(axis=1), b[every].sum(axis=1))
        kinds, phases = self._levels(a, b)
        self.parts = [step, *kinds, *phases]
        self.end = _nothing_to_explain(bare, step)
        if self.end:
            return
        cause = self._follow(step, kinds)
        if cause is None or cause.part != LOCAL:
            return
        phase = self._follow(cause, phases)
        self._into_operators(cause, phase)

    def _levels(self, a: pd.DataFrame, b: pd.DataFrame) -> tuple[list[Difference], ...]:
        """Compare what has to do with other processes, and the phases of local work."""

        def compared(level: str, within: str, part: str, group: Sequence[str]) -> Difference:
            columns = list(group)
            return over_blocks(level, within, part, a[columns].sum(axis=1), b[columns].sum(axis=1))

        remote = [group for group in self.groups if is_remote(group)]
        own = [group for group in self.groups if not is_remote(group)]
        kinds = [compared("kind", "step", named(group), group) for group in remote]
        kinds.append(compared("kind", "step", LOCAL, [part for group in own for part in group]))
        return kinds, [compared("phase", LOCAL, named(group), group) for group in own]

    def _follow(self, whole: Difference, parts: list[Difference]) -> Difference | None:
        """Name the part that stands out."""
        found = standing_out(whole, parts)
        if found is None:
            self.end = f"inside {_called(whole)} no part stands out"
        elif found.part == OUTSIDE:
            self.end = f"the operators do not explain {_called(whole)}"
            found = None
        else:
            self.path.append(found)
            self.end = "nothing finer was measured"
        return found

    def _into_operators(self, local: Difference, phase: Difference | None) -> None:
        """Go on with the operators of the phase, or of all local work if phases are not known."""
        names = (self.pair.a, self.pair.b)
        if self.operators is None or not profiled(self.operators, names):
            if phase is not None:
                self.end = "no profile of operators is there"
            return
        inside: Sequence[str] | None = phase.part.split(AND) if phase else None
        if phase is None or not has_phases(self.operators, names):
            phase, inside = local, None
        classes = by_class(self.operators, *names, phase, inside)
        self.parts += classes
        kind = self._follow(phase, classes)
        if kind is None:
            return
        operators = by_operator(self.operators, *names, kind, inside)
        self.parts += operators
        leading = leading_operator(kind, operators, *names)
        if leading is None:
            self.end = f"inside {kind.part} no operator stands out"
        else:
            self.path.append(leading)
            self.end = ""


def _called(whole: Difference) -> str:
    return f"{whole.part} work" if whole.part == LOCAL else whole.part


def _nothing_to_explain(bare: Difference, step: Difference) -> str:
    """Tell why a difference is not to be taken apart; nothing if it is."""
    if bare.difference_s * step.difference_s <= 0:
        return "the instrumented steps do not show the difference of the bare ones"
    if not step.is_certain:
        return "the difference of the instrumented steps is not certain"
    return ""
