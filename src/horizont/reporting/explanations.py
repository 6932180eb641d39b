"""A sentence that is built from numbers, each of which leads to the records it rests on."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from horizont.analysis.drilldown import LOCAL, Difference, Drilldown
from horizont.analysis.verdicts import NOT_COMPARABLE
from horizont.reporting import labels
from horizont.reporting.tables import shorten
from horizont.statistics.comparison import MARGIN


@dataclass(frozen=True)
class TracedNumber:
    """A measured number inside a sentence.

    Attributes
    ----------
    text
        The number as it is read, with its unit.
    records
        The names of the records that it rests on, at least one.

    Raises
    ------
    ValueError
        If it rests on nothing.
    """

    text: str
    records: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.records:
            raise ValueError(f"the number {self.text} rests on no record")

    @property
    def address(self) -> str:
        """The place on the page where its records are listed."""
        return "records-" + hashlib.sha256("\n".join(self.records).encode()).hexdigest()[:10]


@dataclass(frozen=True)
class TracedSentence:
    """One or more sentences of words and numbers.

    Shown in a notebook as a paragraph; a click on a number opens the list of its records. The
    metadata of the output hold the numbers with their records as data.

    Attributes
    ----------
    place
        The folder that the records are in.
    """

    pieces: tuple[str | TracedNumber, ...]
    records_folder: str = "records"

    @property
    def numbers(self) -> list[TracedNumber]:
        """The numbers in their order."""
        return [piece for piece in self.pieces if isinstance(piece, TracedNumber)]

    @property
    def text(self) -> str:
        """The words as they are read."""
        return "".join(p.text if isinstance(p, TracedNumber) else p for p in self.pieces)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        words = "".join(
            _linked_number(p) if isinstance(p, TracedNumber) else _escape_with_no_breaks(p)
            for p in self.pieces
        )
        page = f'<p class="hz-sentence">{words}</p>{self._record_list()}'
        numbers = [{"text": each.text, "records": list(each.records)} for each in self.numbers]
        metadata = {"horizont": {"numbers": numbers, "place": self.records_folder}}
        return {"text/html": page, "text/plain": self.text}, metadata

    def _record_list(self) -> str:
        """List the records, each set once, folded away."""
        sets = {number.address: number.records for number in self.numbers}
        if not sets:
            return ""
        count = len({name for names in sets.values() for name in names})
        said = f"{count} record{'s' if count > 1 else ''} in {self.records_folder}"
        lists = "".join(_collapsed_records(address, names) for address, names in sets.items())
        return (
            f'<details class="hz-evidence"><summary>{html.escape(said)}</summary>{lists}</details>'
        )


def _linked_number(number: TracedNumber) -> str:
    names = html.escape("\n".join(number.records))
    link = f'<a class="hz-number" href="#{number.address}" title="{names}">'
    return f"{link}{_escape_with_no_breaks(number.text)}</a>"


def _escape_with_no_breaks(text: str) -> str:
    """Escape a text and keep numbers and their units on one line."""
    return (
        html.escape(text)
        .replace(" %", "\N{NO-BREAK SPACE}%")
        .replace(" ms", "\N{NO-BREAK SPACE}ms")
    )


def _collapsed_records(address: str, names: Sequence[str]) -> str:
    rows = "".join(f"<li><code>{html.escape(name)}</code></li>" for name in names)
    return f'<ul id="{address}">{rows}</ul>'


Pieces = list[str | TracedNumber]

#: From here on looking changed the difference so much that only shares still tell.
DISTORTION_LIMIT = 1.25


def explain_verdicts(
    verdicts: pd.DataFrame, drilldowns: Sequence[Drilldown], margin: float = MARGIN
) -> list[TracedSentence]:
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
    return [explain_verdict(row, found[row["a"], row["b"]], names, margin) for row in rows]


def short_names(systems: Sequence[str]) -> dict[str, str]:
    """Name systems inside a sentence: by the framework alone if it has no other here."""
    once = list(dict.fromkeys(systems))
    frameworks = [labels.framework_of(name) for name in once]
    return {
        name: labels.framework_label(own)
        if frameworks.count(own) == 1
        else f"{labels.framework_label(own)} ({labels.synchronisation_label(name)})"
        for name, own in zip(once, frameworks, strict=True)
    }


def explain_verdict(
    row: Mapping[Any, Any], drilldown: Drilldown, names: Mapping[str, str], margin: float = MARGIN
) -> TracedSentence:
    """Say which of two systems is faster, how surely, and by what.

    Parameters
    ----------
    row
        Of the table of verdicts.
    names
        What to call the systems.
    """
    a, b = names[row["a"]], names[row["b"]]
    run = drilldown.pair.records_a[0].run
    place = f"records/{run.experiment}/{run.workload_name}"
    if row["outcome"] == NOT_COMPARABLE:
        text = f"{a} and {b} are not compared: {shorten(row['reason'])}."
        return TracedSentence((text,), place)
    if not row["blocks"]:
        why = f" ({shorten(row['reason'])})" if row["reason"] else ""
        return TracedSentence(
            (f"{a} and {b}: no block has a run of both{why}. Not settled.",), place
        )
    said = _verdict_pieces(row, a, b, margin)
    if row["outcome"] in ("A faster", "B faster"):
        said += _cause_pieces(drilldown, a, b, slower_is_b=row["outcome"] == "A faster")
    return TracedSentence((*said, *_caveat_pieces(row)), place)


def _verdict_pieces(row: Mapping[Any, Any], a: str, b: str, margin: float) -> Pieces:
    rests_on = row["records"]
    ratio, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
    if row["outcome"] == "B faster":
        a, b, ratio, low, high = b, a, 1 / ratio, 1 / high, 1 / low
    measured = [TracedNumber(f"{ratio:.2f}", rests_on), *_interval_pieces(low, high, row)]
    if row["outcome"] == "equal":
        return [f"{a} and {b} are equally fast, within {margin:.0%}: ratio ", *measured, "."]
    if row["outcome"] == "not settled":
        said: Pieces = [f"Whether {a} or {b} is faster is not settled: ratio ", *measured, "."]
        return said + _power_pieces(row)
    return [f"{a} is ", measured[0], f" times as fast as {b}", *measured[1:], "."]


def _interval_pieces(low: float, high: float, row: Mapping[Any, Any]) -> Pieces:
    rests_on, blocks = row["records"], row["blocks"]
    counted = TracedNumber(f"{blocks} block{'s' if blocks > 1 else ''}", rests_on)
    if pd.isna(low):
        return [" (", counted, ", which give no interval)"]
    ends = TracedNumber(f"{low:.2f} to {high:.2f}", rests_on)
    return [" (", ends, f", {row['level']:.0%} interval of ", counted, ")"]


def _power_pieces(row: Mapping[Any, Any]) -> Pieces:
    """Tell what could have been found, and what would settle the matter."""
    said: Pieces = []
    if not pd.isna(row["minimum_detectable_ratio"]):
        found = TracedNumber(f"{row['minimum_detectable_ratio']:.2f}", row["records"])
        said += [" So many blocks with this spread find a ratio of ", found, " or more."]
    if not pd.isna(row["additional_blocks"]):
        more = TracedNumber(f"{row['additional_blocks']:.0f}", row["records"])
        said += [" About ", more, " more would settle it."]
    return said


def _cause_pieces(drilldown: Drilldown, a: str, b: str, *, slower_is_b: bool) -> Pieces:
    """Follow the difference down to its cause."""
    if drilldown.step is None or drilldown.timed is None or not drilldown.path:
        return [f" No cause is named: {drilldown.stop_reason}."]
    sign, slower, faster = (1, b, a) if slower_is_b else (-1, a, b)
    bare, step = drilldown.timed.difference_s, drilldown.step.difference_s
    said: Pieces = [
        f" A step of {slower} is ",
        _traced_ms(sign * bare, drilldown.records),
        " longer bare",
    ]
    said += [
        " and ",
        _traced_ms(sign * step, drilldown.records),
        " longer while its parts are measured.",
    ]
    said += [" Of these, "]
    told = [part for part in drilldown.path if not _is_trivial(part, drilldown)]
    shown = [part for part in told if not _is_operator_only_in_slower(part, slower_is_b)]
    for place, part in enumerate(shown):
        said += [("" if place == 0 else " and " if place == len(shown) - 1 else ", ")]
        said += _fraction_pieces(part, step, drilldown.records, slower_is_b)
        said += [" lie" if place == 0 else ""]
        said += _location_pieces(part, drilldown.records, slower_is_b)
    for part in told[len(shown) :]:
        spent = _traced_ms(part.b_s if slower_is_b else part.a_s, part.records or drilldown.records)
        where = labels.cause_label(part.level, part.part)
        said += [f". There {slower} spends ", spent, f" {where}, which {faster} does not have"]
    said += [
        f". {drilldown.stop_reason[0].upper()}{drilldown.stop_reason[1:]}."
        if drilldown.stop_reason
        else "."
    ]
    if not 1 / DISTORTION_LIMIT < step / bare < DISTORTION_LIMIT:
        said += [" Looking changed the difference; the shares tell more than the times."]
    return said


def _is_trivial(part: Difference, drilldown: Drilldown) -> bool:
    """Whether a part is all there is at its level: the own work of a single process."""
    return part.part == LOCAL and len(drilldown.children("step")) == 1 and len(drilldown.path) > 1


def _fraction_pieces(
    part: Difference, step_s: float, runs: tuple[str, ...], slower_is_b: bool
) -> Pieces:
    """Tell how much of the difference a part holds."""
    rests_on = part.records or runs
    of_step = tuple(dict.fromkeys([*rests_on, *runs]))
    share = TracedNumber(f"{part.difference_s / step_s:.0%}", of_step)
    sign = 1 if slower_is_b else -1
    return [_traced_ms(sign * part.difference_s, rests_on), " (", share, ")"]


def _location_pieces(part: Difference, runs: tuple[str, ...], slower_is_b: bool) -> Pieces:
    """Name a part, with its times in both systems."""
    rests_on = part.records or runs
    over_all = part.level == "class" and part.parent == LOCAL
    said: Pieces = [
        f" {labels.cause_label(part.level, part.part)}{' of all phases' if over_all else ''}"
    ]
    slow_s, fast_s = (part.b_s, part.a_s) if slower_is_b else (part.a_s, part.b_s)
    if _only_in_slower(part, slower_is_b):
        return [*said, ", which the other does not have"]
    if part.part != LOCAL and not pd.isna(fast_s):
        said += [" (", _traced_ms(slow_s, rests_on), " against ", _traced_ms(fast_s, rests_on), ")"]
    return said


def _only_in_slower(part: Difference, slower_is_b: bool) -> bool:
    """Whether only the slower system has this part."""
    return bool(pd.isna(part.a_s if slower_is_b else part.b_s))


def _is_operator_only_in_slower(part: Difference, slower_is_b: bool) -> bool:
    """Whether it is an operator that only the slower system has: its time is no difference."""
    return part.level == "operator" and _only_in_slower(part, slower_is_b)


def _caveat_pieces(row: Mapping[Any, Any]) -> Pieces:
    """Say where the evidence is thin."""
    said: Pieces = []
    if row["level"] < 0.95 and not pd.isna(row["ratio_low"]):
        blocks = TracedNumber(f"{row['blocks']} blocks", row["records"])
        promised = f"{row['level']:.0%}"
        said += [" With ", blocks, f" the interval can promise {promised} at best"]
        leans = row["outcome"] != "not settled"
        said += ["; the answer leans on the t test." if leans else "."]
    if row["blocks"] < row["planned"]:
        said += [f" Of {row['planned']} planned blocks some are missing: "]
        said += [f"{shorten(row['reason'])}."]
    if row["disturbed"]:
        marked = TracedNumber(f"{row['disturbed']}", row["records"])
        said += [" Other programs disturbed ", marked, " of the runs."]
    return said


def _traced_ms(value_s: float, records: tuple[str, ...]) -> TracedNumber:
    value_ms = value_s * 1e3
    digits = 0 if abs(value_ms) >= 100 else 1 if abs(value_ms) >= 10 else 2
    return TracedNumber(f"{value_ms:,.{digits}f} ms", records)
