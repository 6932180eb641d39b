"""What differs, how surely, and why: a few sentences on each pair, built from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from horizont.analysis import LOCAL, NOT_COMPARABLE, Difference, Drilldown
from horizont.report import words
from horizont.report.sentence import Number, Sentence
from horizont.report.tables import shortened
from horizont.stats import MARGIN

Pieces = list[str | Number]

#: From here on looking changed the difference so much that only shares still tell.
CHANGED = 1.25


def explanations(
    verdicts: pd.DataFrame, drilldowns: Sequence[Drilldown], margin: float = MARGIN
) -> list[Sentence]:
    """Say of each pair which system is faster, how surely, and by what.

    Parameters
    ----------
    verdicts
        As of `horizont.analysis.verdicts`.
    drilldowns
        As of `horizont.analysis.drilldowns`, of the same records.
    """
    found = {(each.pair.a, each.pair.b): each for each in drilldowns}
    names = short_names([name for each in drilldowns for name in (each.pair.a, each.pair.b)])
    rows = verdicts.to_dict(orient="records")
    return [explanation(row, found[row["a"], row["b"]], names, margin) for row in rows]


def short_names(systems: Sequence[str]) -> dict[str, str]:
    """Name systems inside a sentence: by the framework alone if it has no other here."""
    once = list(dict.fromkeys(systems))
    frameworks = [words.framework_of(name) for name in once]
    return {
        name: words.framework(own)
        if frameworks.count(own) == 1
        else f"{words.framework(own)} ({words.mode(name)})"
        for name, own in zip(once, frameworks, strict=True)
    }


def explanation(
    row: Mapping[Any, Any], drill: Drilldown, names: Mapping[str, str], margin: float = MARGIN
) -> Sentence:
    """Say which of two systems is faster, how surely, and by what.

    Parameters
    ----------
    row
        Of the table of verdicts.
    names
        What to call the systems.
    """
    a, b = names[row["a"]], names[row["b"]]
    run = drill.pair.records_a[0].run
    place = f"records/{run.experiment}/{run.workload_name}"
    if row["outcome"] == NOT_COMPARABLE:
        text = f"{a} and {b} are not compared: {shortened(row['reason'])}."
        return Sentence((text,), place)
    if not row["blocks"]:
        why = f" ({shortened(row['reason'])})" if row["reason"] else ""
        return Sentence((f"{a} and {b}: no block has a run of both{why}. Not settled.",), place)
    said = _verdict(row, a, b, margin)
    if row["outcome"] in ("A faster", "B faster"):
        said += _cause(drill, a, b, slower_is_b=row["outcome"] == "A faster")
    return Sentence((*said, *_caveats(row)), place)


def _verdict(row: Mapping[Any, Any], a: str, b: str, margin: float) -> Pieces:
    rests_on = row["records"]
    ratio, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
    if row["outcome"] == "B faster":
        a, b, ratio, low, high = b, a, 1 / ratio, 1 / high, 1 / low
    measured = [Number(f"{ratio:.2f}", rests_on), *_interval(low, high, row)]
    if row["outcome"] == "equal":
        return [f"{a} and {b} are equally fast, within {margin:.0%}: ratio ", *measured, "."]
    if row["outcome"] == "not settled":
        said: Pieces = [f"Whether {a} or {b} is faster is not settled: ratio ", *measured, "."]
        return said + _what_it_takes(row)
    return [f"{a} is ", measured[0], f" times as fast as {b}", *measured[1:], "."]


def _interval(low: float, high: float, row: Mapping[Any, Any]) -> Pieces:
    rests_on, blocks = row["records"], row["blocks"]
    counted = Number(f"{blocks} block{'s' if blocks > 1 else ''}", rests_on)
    if pd.isna(low):
        return [" (", counted, ", which give no interval)"]
    ends = Number(f"{low:.2f} to {high:.2f}", rests_on)
    return [" (", ends, f", {row['level']:.0%} interval of ", counted, ")"]


def _what_it_takes(row: Mapping[Any, Any]) -> Pieces:
    """Tell what could have been found, and what would settle the matter."""
    said: Pieces = []
    if not pd.isna(row["detectable"]):
        found = Number(f"{row['detectable']:.2f}", row["records"])
        said += [" So many blocks with this spread find a ratio of ", found, " or more."]
    if not pd.isna(row["further_blocks"]):
        more = Number(f"{row['further_blocks']:.0f}", row["records"])
        said += [" About ", more, " more would settle it."]
    return said


def _cause(drill: Drilldown, a: str, b: str, *, slower_is_b: bool) -> Pieces:
    """Follow the difference down to its cause."""
    if drill.step is None or drill.bare is None or not drill.path:
        return [f" No cause is named: {drill.end}."]
    sign, slower, faster = (1, b, a) if slower_is_b else (-1, a, b)
    bare, step = drill.bare.difference_s, drill.step.difference_s
    said: Pieces = [f" A step of {slower} is ", _ms(sign * bare, drill.records), " longer bare"]
    said += [" and ", _ms(sign * step, drill.records), " longer while its parts are measured."]
    said += [" Of these, "]
    told = [part for part in drill.path if not _says_nothing(part, drill)]
    shown = [part for part in told if not _own_name(part, slower_is_b)]
    for place, part in enumerate(shown):
        said += [("" if place == 0 else " and " if place == len(shown) - 1 else ", ")]
        said += _part(part, step, drill.records, slower_is_b)
        said += [" lie" if place == 0 else ""]
        said += _where(part, drill.records, slower_is_b)
    for part in told[len(shown) :]:
        spent = _ms(part.b_s if slower_is_b else part.a_s, part.records or drill.records)
        where = words.cause(part.level, part.part)
        said += [f". There {slower} spends ", spent, f" {where}, which {faster} does not have"]
    said += [f". {drill.end[0].upper()}{drill.end[1:]}." if drill.end else "."]
    if not 1 / CHANGED < step / bare < CHANGED:
        said += [" Looking changed the difference; the shares tell more than the times."]
    return said


def _says_nothing(part: Difference, drill: Drilldown) -> bool:
    """Whether a part is all there is at its level: the own work of a single process."""
    return part.part == LOCAL and len(drill.inside("step")) == 1 and len(drill.path) > 1


def _part(part: Difference, step_s: float, runs: tuple[str, ...], slower_is_b: bool) -> Pieces:
    """Tell how much of the difference a part holds."""
    rests_on = part.records or runs
    of_step = tuple(dict.fromkeys([*rests_on, *runs]))
    share = Number(f"{part.difference_s / step_s:.0%}", of_step)
    sign = 1 if slower_is_b else -1
    return [_ms(sign * part.difference_s, rests_on), " (", share, ")"]


def _where(part: Difference, runs: tuple[str, ...], slower_is_b: bool) -> Pieces:
    """Name a part, with its times in both systems."""
    rests_on = part.records or runs
    over_all = part.level == "class" and part.within == LOCAL
    said: Pieces = [f" {words.cause(part.level, part.part)}{' of all phases' if over_all else ''}"]
    slow_s, fast_s = (part.b_s, part.a_s) if slower_is_b else (part.a_s, part.b_s)
    if _alone(part, slower_is_b):
        return [*said, ", which the other does not have"]
    if part.part != LOCAL and not pd.isna(fast_s):
        said += [" (", _ms(slow_s, rests_on), " against ", _ms(fast_s, rests_on), ")"]
    return said


def _alone(part: Difference, slower_is_b: bool) -> bool:
    """Whether only the slower system has this part."""
    return bool(pd.isna(part.a_s if slower_is_b else part.b_s))


def _own_name(part: Difference, slower_is_b: bool) -> bool:
    """Whether it is an operator that only the slower system has: its time is no difference."""
    return part.level == "operator" and _alone(part, slower_is_b)


def _caveats(row: Mapping[Any, Any]) -> Pieces:
    """Say where the evidence is thin."""
    said: Pieces = []
    if row["level"] < 0.95 and not pd.isna(row["ratio_low"]):
        blocks = Number(f"{row['blocks']} blocks", row["records"])
        promised = f"{row['level']:.0%}"
        said += [" With ", blocks, f" the interval can promise {promised} at best"]
        leans = row["outcome"] != "not settled"
        said += ["; the answer leans on the t test." if leans else "."]
    if row["blocks"] < row["planned"]:
        said += [f" Of {row['planned']} planned blocks some are missing: "]
        said += [f"{shortened(row['reason'])}."]
    if row["disturbed"]:
        marked = Number(f"{row['disturbed']}", row["records"])
        said += [" Other programs disturbed ", marked, " of the runs."]
    return said


def _ms(value_s: float, rests_on: tuple[str, ...]) -> Number:
    value_ms = value_s * 1e3
    digits = 0 if abs(value_ms) >= 100 else 1 if abs(value_ms) >= 10 else 2
    return Number(f"{value_ms:,.{digits}f} ms", rests_on)
