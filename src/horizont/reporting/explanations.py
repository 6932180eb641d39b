"""Sentences on verdicts, in which every number links to the records that it was computed from."""

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
from horizont.reporting.output import Bundle, Stack
from horizont.reporting.registry import table
from horizont.reporting.tables import shorten
from horizont.statistics.comparison import MARGIN

#: Above this ratio of the instrumented to the timed difference, times are distorted.
DISTORTION_LIMIT = 1.25


@dataclass(frozen=True)
class TracedNumber:
    """A measured number in a sentence, with its unit.

    Attributes
    ----------
    records
        Names of the records that it was computed from.

    Raises
    ------
    ValueError
        If there are no records.
    """

    text: str
    records: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.records:
            raise ValueError(f"the number {self.text} has no records")

    @property
    def anchor(self) -> str:
        """The anchor of the list of its records."""
        return "records-" + hashlib.sha256("\n".join(self.records).encode()).hexdigest()[:10]


Pieces = list[str | TracedNumber]


@dataclass(frozen=True)
class TracedSentence:
    """One or more sentences of words and numbers.

    A notebook shows a paragraph whose numbers link to the lists of their records. The metadata of
    the output have the numbers and their records as data.
    """

    pieces: tuple[str | TracedNumber, ...]
    records_folder: str = "records"

    @property
    def numbers(self) -> list[TracedNumber]:
        """The numbers in order."""
        return [piece for piece in self.pieces if isinstance(piece, TracedNumber)]

    @property
    def text(self) -> str:
        """The sentence without links."""
        return "".join(p.text if isinstance(p, TracedNumber) else p for p in self.pieces)

    def _repr_mimebundle_(self, **_: Any) -> tuple[Bundle, Bundle]:
        words = "".join(
            _linked_number(piece) if isinstance(piece, TracedNumber) else _escape(piece)
            for piece in self.pieces
        )
        page = f'<p class="hz-sentence">{words}</p>{self._record_lists()}'
        numbers = [{"text": each.text, "records": list(each.records)} for each in self.numbers]
        metadata = {"horizont": {"numbers": numbers, "place": self.records_folder}}
        return {"text/html": page, "text/plain": self.text}, metadata

    def _record_lists(self) -> str:
        """Return the collapsed lists of records, without duplicates."""
        lists = {number.anchor: number.records for number in self.numbers}
        if not lists:
            return ""
        count = len({name for names in lists.values() for name in names})
        summary = f"{count} record{'s' if count > 1 else ''} in {self.records_folder}"
        items = "".join(_record_list(anchor, names) for anchor, names in lists.items())
        summary = f"<summary>{html.escape(summary)}</summary>"
        return f'<details class="hz-evidence">{summary}{items}</details>'


def _linked_number(number: TracedNumber) -> str:
    names = html.escape("\n".join(number.records))
    link = f'<a class="hz-number" href="#{number.anchor}" title="{names}">'
    return f"{link}{_escape(number.text)}</a>"


def _escape(text: str) -> str:
    """Escape a text, and put no-break spaces between numbers and units."""
    no_break = "\N{NO-BREAK SPACE}"
    return html.escape(text).replace(" %", f"{no_break}%").replace(" ms", f"{no_break}ms")


def _record_list(anchor: str, names: Sequence[str]) -> str:
    items = "".join(f"<li><code>{html.escape(name)}</code></li>" for name in names)
    return f'<ul id="{anchor}">{items}</ul>'


@table("explanations", title="Explanations")
def explain_verdicts(
    verdicts: pd.DataFrame, drilldowns: Sequence[Drilldown], margin: float = MARGIN
) -> Stack:
    """Build the sentences on all pairs.

    Parameters
    ----------
    verdicts, drilldowns
        Of `horizont.analysis`, for the same records.
    """
    by_pair = {(drilldown.pair.a, drilldown.pair.b): drilldown for drilldown in drilldowns}
    names = labels.short_labels([name for pair in by_pair for name in pair])
    return Stack(
        tuple(
            explain_verdict(row, by_pair[row["a"], row["b"]], names, margin)
            for row in verdicts.to_dict(orient="records")
        )
    )


def explain_verdict(
    row: Mapping[Any, Any], drilldown: Drilldown, names: Mapping[str, str], margin: float = MARGIN
) -> TracedSentence:
    """Build the sentences on a pair: which system is faster, with what confidence, and why.

    Parameters
    ----------
    row
        Of the table of verdicts.
    names
        Labels of the systems.
    """
    a, b = names[row["a"]], names[row["b"]]
    run = drilldown.pair.records_a[0].run
    folder = f"records/{run.experiment}/{run.workload_name}"
    if row["outcome"] == NOT_COMPARABLE:
        text = f"{a} and {b} are not compared: {shorten(row['reason'])}."
        return TracedSentence((text,), folder)
    if not row["blocks"]:
        reason = f" ({shorten(row['reason'])})" if row["reason"] else ""
        text = f"{a} and {b}: no block has a run of both{reason}. Not settled."
        return TracedSentence((text,), folder)
    pieces = _verdict_pieces(row, a, b, margin)
    if row["outcome"] in ("A faster", "B faster"):
        pieces += _cause_pieces(drilldown, a, b, slower_is_b=row["outcome"] == "A faster")
    return TracedSentence((*pieces, *_caveat_pieces(row)), folder)


def _verdict_pieces(row: Mapping[Any, Any], a: str, b: str, margin: float) -> Pieces:
    records = row["records"]
    ratio, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
    if row["outcome"] == "B faster":
        a, b, ratio, low, high = b, a, 1 / ratio, 1 / high, 1 / low
    measured = [TracedNumber(f"{ratio:.2f}", records), *_interval_pieces(low, high, row)]
    if row["outcome"] == "equal":
        return [f"{a} and {b} are equally fast, within {margin:.0%}: ratio ", *measured, "."]
    if row["outcome"] == "not settled":
        question = f"Whether {a} or {b} is faster is not settled: ratio "
        return [question, *measured, ".", *_power_pieces(row)]
    return [f"{a} is ", measured[0], f" times as fast as {b}", *measured[1:], "."]


def _interval_pieces(low: float, high: float, row: Mapping[Any, Any]) -> Pieces:
    records, blocks = row["records"], row["blocks"]
    count = TracedNumber(f"{blocks} block{'s' if blocks > 1 else ''}", records)
    if pd.isna(low):
        return [" (", count, ", too few for an interval)"]
    ends = TracedNumber(f"{low:.2f} to {high:.2f}", records)
    return [" (", ends, f", {row['level']:.0%} interval of ", count, ")"]


def _power_pieces(row: Mapping[Any, Any]) -> Pieces:
    """Build the sentences on the detectable ratio, and on the blocks needed for a verdict."""
    pieces: Pieces = []
    if not pd.isna(row["minimum_detectable_ratio"]):
        ratio = TracedNumber(f"{row['minimum_detectable_ratio']:.2f}", row["records"])
        pieces += [" This many blocks with this spread can detect a ratio of ", ratio, " or more."]
    if not pd.isna(row["additional_blocks"]):
        blocks = TracedNumber(f"{row['additional_blocks']:.0f}", row["records"])
        pieces += [" About ", blocks, " more blocks would settle it."]
    return pieces


def _cause_pieces(drilldown: Drilldown, a: str, b: str, *, slower_is_b: bool) -> Pieces:
    """Build the sentences that attribute the difference to its dominant parts."""
    if drilldown.step is None or drilldown.timed is None or not drilldown.path:
        return [f" The cause is unknown: {drilldown.stop_reason}."]
    sign, slower, faster = (1, b, a) if slower_is_b else (-1, a, b)
    timed_s, step_s = drilldown.timed.difference_s, drilldown.step.difference_s
    records = drilldown.records
    pieces: Pieces = [f" A timed step of {slower} is ", _traced_ms(sign * timed_s, records)]
    pieces += [" longer, an instrumented one ", _traced_ms(sign * step_s, records), ". Of these, "]
    parts = [part for part in drilldown.path if not _is_trivial(part, drilldown)]
    shared = [part for part in parts if not _is_operator_only_in_slower(part, slower_is_b)]
    for index, part in enumerate(shared):
        pieces += ["" if index == 0 else " and " if index == len(shared) - 1 else ", "]
        pieces += _fraction_pieces(part, step_s, records, slower_is_b)
        pieces += [" are" if index == 0 else ""]
        pieces += _location_pieces(part, records, slower_is_b)
    for part in parts[len(shared) :]:
        spent = _traced_ms(part.b_s if slower_is_b else part.a_s, part.records or records)
        where = labels.cause_label(part.level, part.part)
        pieces += [f". There, {slower} spends ", spent, f" {where}, which {faster} does not have"]
    reason = drilldown.stop_reason
    pieces += [f". {labels.capitalise(reason)}." if reason else "."]
    if not 1 / DISTORTION_LIMIT < step_s / timed_s < DISTORTION_LIMIT:
        pieces += [" Instrumentation changed the difference: fractions are valid, times are not."]
    return pieces


def _is_trivial(part: Difference, drilldown: Drilldown) -> bool:
    """Whether a part is its whole level: the computation of a single process."""
    return part.part == LOCAL and len(drilldown.children("step")) == 1 and len(drilldown.path) > 1


def _fraction_pieces(
    part: Difference, step_s: float, records: tuple[str, ...], slower_is_b: bool
) -> Pieces:
    own = part.records or records
    of_step = tuple(dict.fromkeys([*own, *records]))
    fraction = TracedNumber(f"{part.difference_s / step_s:.0%}", of_step)
    sign = 1 if slower_is_b else -1
    return [_traced_ms(sign * part.difference_s, own), " (", fraction, ")"]


def _location_pieces(part: Difference, records: tuple[str, ...], slower_is_b: bool) -> Pieces:
    """Return the name of a part, with its times in both systems."""
    own = part.records or records
    of_all_phases = part.level == "class" and part.parent == LOCAL
    location = f" {labels.cause_label(part.level, part.part)}"
    pieces: Pieces = [location + (" in all phases" if of_all_phases else "")]
    slow_s, fast_s = (part.b_s, part.a_s) if slower_is_b else (part.a_s, part.b_s)
    if _only_in_slower(part, slower_is_b):
        return [*pieces, ", which the other does not have"]
    if part.part != LOCAL and not pd.isna(fast_s):
        pieces += [" (", _traced_ms(slow_s, own), " against ", _traced_ms(fast_s, own), ")"]
    return pieces


def _only_in_slower(part: Difference, slower_is_b: bool) -> bool:
    return bool(pd.isna(part.a_s if slower_is_b else part.b_s))


def _is_operator_only_in_slower(part: Difference, slower_is_b: bool) -> bool:
    """Whether only the slower system has this operator, whose time then is no difference."""
    return part.level == "operator" and _only_in_slower(part, slower_is_b)


def _caveat_pieces(row: Mapping[Any, Any]) -> Pieces:
    """Build the sentences on weaknesses of the evidence."""
    pieces: Pieces = []
    if row["level"] < 0.95 and not pd.isna(row["ratio_low"]):
        blocks = TracedNumber(f"{row['blocks']} blocks", row["records"])
        pieces += [" With ", blocks, f" the interval attains a level of {row['level']:.0%} at best"]
        has_verdict = row["outcome"] != "not settled"
        pieces += ["; the verdict depends on the t test." if has_verdict else "."]
    if row["blocks"] < row["planned"]:
        reason = shorten(row["reason"])
        pieces += [f" Of {row['planned']} planned blocks some are missing: {reason}."]
    if row["disturbed"]:
        count = TracedNumber(f"{row['disturbed']}", row["records"])
        pieces += [" Other programs disturbed ", count, " of the runs."]
    return pieces


def _traced_ms(value_s: float, records: tuple[str, ...]) -> TracedNumber:
    value_ms = value_s * 1e3
    digits = 0 if abs(value_ms) >= 100 else 1 if abs(value_ms) >= 10 else 2
    return TracedNumber(f"{value_ms:,.{digits}f} ms", records)
