"""The last two levels of the drill-down: operator classes and operators, from profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from horizont.analysis.difference import STANDS_OUT, Difference, standing_out
from horizont.analysis.operators import OUTSIDE
from horizont.spec import parse_system


def profiled(operators: pd.DataFrame | None, systems: Iterable[str]) -> bool:
    """Tell whether there is a profile of all of some systems."""
    return operators is not None and set(systems) <= set(operators["system"])


def has_phases(operators: pd.DataFrame, systems: Iterable[str]) -> bool:
    """Tell whether the phase of every operator is known."""
    return bool(operators.loc[operators["system"].isin(list(systems)), "phase"].notna().all())


def by_class(
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
    classes = _compared(shown, a, b, "operator_class", whole.part)
    left_a = whole.a_s - sum(_or_nothing(each.a_s) for each in classes)
    left_b = whole.b_s - sum(_or_nothing(each.b_s) for each in classes)
    rest = Difference("class", whole.part, OUTSIDE, left_a, left_b, left_b - left_a)
    return [*classes, rest]


def by_operator(
    operators: pd.DataFrame, a: str, b: str, whole: Difference, phases: Iterable[str] | None
) -> list[Difference]:
    """Take a class apart by operator, each under the name that its framework has for it."""
    shown = operators if phases is None else operators[operators["phase"].isin(list(phases))]
    own = shown[shown["operator_class"] == whole.part]
    return _compared(own, a, b, "operator", whole.part)


def leading_operator(
    whole: Difference, parts: list[Difference], a: str, b: str
) -> Difference | None:
    """Find the operator that a class is slow by, if one stands out.

    Two frameworks have other operators, so a difference is not one of an operator: there it is
    the one that makes at least half of the class in the slower system.
    """
    if parse_system(a).framework == parse_system(b).framework:
        return standing_out(whole, parts)
    slower = [(each.b_s if whole.difference_s > 0 else each.a_s, each) for each in parts]
    spent = [(spent_s, each) for spent_s, each in slower if spent_s > 0]  # false for NaN
    longest = max(spent, key=lambda pair: pair[0], default=None)
    if longest is None or longest[0] < STANDS_OUT * sum(spent_s for spent_s, _ in spent):
        return None
    return longest[1]


def _compared(
    operators: pd.DataFrame, a: str, b: str, column: str, within: str
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
        apart = _or_nothing(b_s) - _or_nothing(a_s)
        own = operators[(operators[column] == name) & operators["system"].isin([a, b])]
        rests_on = tuple(dict.fromkeys(own["record"])) if "record" in own else ()
        found.append(Difference(level, within, str(name), a_s, b_s, apart, records=rests_on))
    return sorted(found, key=lambda each: -abs(each.difference_s))


def _or_nothing(value_s: float) -> float:
    """Count an operator that a system does not have as no time spent."""
    return 0.0 if math.isnan(value_s) else value_s
