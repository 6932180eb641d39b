"""Sentences on verdicts, in which every number links to the records that it was computed from."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any

import pandas as pd

from horizont.analysis.drilldown import LOCAL, Difference, Drilldown
from horizont.analysis.verdicts import NOT_COMPARABLE
from horizont.reporting import labels
from horizont.reporting.output import Bundle, Stack
from horizont.reporting.registry import table
from horizont.reporting.tables import format_ms
from horizont.statistics.comparison import MARGIN
from horizont.wording import shorten

#: Above this ratio of the instrumented to the timed difference, times are distorted.
DISTORTION_LIMIT = 1.25


@dataclass(frozen=True)
class TracedNumber:
    """A measured number in a sentence, with its unit; without records it is a `ValueError`."""

    text: str
    records: tuple[str, ...]  # names of those that it was computed from

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

    A notebook shows a paragraph whose numbers link to the lists of their records, collapsed below
    it. The metadata of the output have the numbers and their records as data.
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
        page = f'<p class="hz-sentence">{"".join(map(_linked, self.pieces))}</p>'
        if lists := {number.anchor: number.records for number in self.numbers}:
            count = len(set().union(*lists.values()))
            summary = f"{count} record{'s' if count > 1 else ''} in {self.records_folder}"
            page += f'<details class="hz-evidence"><summary>{html.escape(summary)}</summary>'
            for anchor, names in lists.items():
                items = "".join(f"<li><code>{html.escape(name)}</code></li>" for name in names)
                page += f'<ul id="{anchor}">{items}</ul>'
            page += "</details>"
        numbers = [{"text": each.text, "records": list(each.records)} for each in self.numbers]
        metadata = {"horizont": {"numbers": numbers, "place": self.records_folder}}
        return {"text/html": page, "text/plain": self.text}, metadata


def _linked(piece: str | TracedNumber) -> str:
    """Escape a text or link a number, with no-break spaces between numbers and units."""
    text = piece if isinstance(piece, str) else piece.text
    text = html.escape(text).replace(" ms", "\N{NO-BREAK SPACE}ms")
    if isinstance(piece, str):
        return text
    names = html.escape("\n".join(piece.records))
    return f'<a class="hz-number" href="#{piece.anchor}" title="{names}">{text}</a>'


@table("explanations", title="Explanations")
def explain_verdicts(
    verdicts: pd.DataFrame, drilldowns: Sequence[Drilldown], margin: float = MARGIN
) -> Stack:
    """Build the sentences on all pairs; verdicts and drill-downs are of the same records."""
    by_pair = {(drilldown.pair.a, drilldown.pair.b): drilldown for drilldown in drilldowns}
    names = labels.short_labels([name for pair in by_pair for name in pair])
    rows = verdicts.to_dict(orient="records")
    return Stack(
        tuple(
            explain_verdict(
                row, by_pair[row["a"], row["b"]], names, margin, states_level=states_level
            )
            for row, states_level in zip(rows, _first_of_each_level(rows), strict=True)
        )
    )


def _first_of_each_level(rows: Sequence[Mapping[Any, Any]]) -> Iterator[bool]:
    """Yield whether a row is the first of its kind of verdict and number of blocks."""
    stated = set()
    for row in rows:
        key = (row["blocks"], row["level"], row["outcome"].removeprefix("A ").removeprefix("B "))
        has_interval = row["outcome"] != NOT_COMPARABLE and row["blocks"] > 0
        yield has_interval and key not in stated
        if has_interval:
            stated.add(key)


def explain_verdict(
    row: Mapping[Any, Any],
    drilldown: Drilldown,
    names: Mapping[str, str],
    margin: float = MARGIN,
    *,
    states_level: bool = True,
) -> TracedSentence:
    """Build the sentences on a pair: which system is faster, with what confidence, and why.

    `row` is of the table of verdicts, `names` are the labels of the systems. What follows from a
    low level of the interval is stated only if `states_level`.
    """
    a, b = names[row["a"]], names[row["b"]]
    folder = drilldown.pair.records_a[0].location
    pieces: Pieces
    if row["outcome"] == NOT_COMPARABLE:
        pieces = [f"{a} and {b} are not compared: {shorten(row['reason'])}."]
    elif not row["blocks"]:
        reason = f" ({shorten(row['reason'])})" if row["reason"] else ""
        pieces = [f"{a} and {b}: no block has a run of both{reason}. Not settled."]
    else:
        pieces = _verdict_pieces(row, a, b, margin)
        if row["outcome"] == "A faster":
            pieces += _cause_pieces(drilldown, slower=b, faster=a, is_b_slower=True)
        elif row["outcome"] == "B faster":
            pieces += _cause_pieces(drilldown, slower=a, faster=b, is_b_slower=False)
        pieces += _caveat_pieces(row, states_level=states_level)
    return TracedSentence(tuple(pieces), folder)


def _fill(template: str, **values: str | TracedNumber | Pieces) -> Pieces:
    """Replace the fields in the braces of a template."""
    pieces: Pieces = []
    for words, name, _, _ in Formatter().parse(template):
        value = values[name] if name else ""
        pieces += [words, *(value if isinstance(value, list) else [value])]
    return pieces


def _verdict_pieces(row: Mapping[Any, Any], a: str, b: str, margin: float) -> Pieces:
    ratio, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
    if row["outcome"] == "B faster":
        a, b, ratio, low, high = b, a, 1 / ratio, 1 / high, 1 / low
    templates = {
        "equal": "{a} and {b} are equally fast, within {margin}: ratio {ratio} ",
        "not settled": "Whether {a} or {b} is faster is not settled: ratio {ratio} ",
    }
    template = templates.get(row["outcome"], "{a} is {ratio} times as fast as {b} ")
    if pd.isna(low):
        template += "({blocks}, too few for an interval)."
    else:
        template += "({interval}, {level} interval of {blocks})."
    if row["outcome"] == "not settled" and not pd.isna(row["minimum_detectable_ratio"]):
        template += " This many blocks with this spread can detect a ratio of {least} or more."
    if row["outcome"] == "not settled" and not pd.isna(row["additional_blocks"]):
        template += " About {more} more blocks would settle it."
    numbers = {
        "ratio": f"{ratio:.2f}",
        "interval": f"{low:.2f} to {high:.2f}",
        "blocks": f"{row['blocks']} block{'s' if row['blocks'] > 1 else ''}",
        "least": f"{row['minimum_detectable_ratio']:.2f}",
        "more": f"{row['additional_blocks']:.0f}",
    }
    traced = {name: TracedNumber(text, row["records"]) for name, text in numbers.items()}
    texts = {"a": a, "b": b, "margin": f"{margin:.0%}", "level": f"{row['level']:.0%}"}
    return _fill(template, **texts, **traced)


def _cause_pieces(drilldown: Drilldown, slower: str, faster: str, *, is_b_slower: bool) -> Pieces:
    """Build the sentences that attribute the difference to its dominant parts."""
    if drilldown.step is None or drilldown.timed is None or not drilldown.path:
        return [f" The cause is unknown: {drilldown.stop_reason}."]
    records = drilldown.records
    timed, step, *path = (
        part
        if is_b_slower
        else replace(part, a_s=part.b_s, b_s=part.a_s, difference_s=-part.difference_s)
        for part in (drilldown.timed, drilldown.step, *drilldown.path)
    )
    pieces = _fill(
        " A timed step of {slower} is {timed} longer, an instrumented one {step}. ",
        slower=slower,
        timed=_traced_ms(timed.difference_s, records),
        step=_traced_ms(step.difference_s, records),
    )
    # The computation of a single process is its whole step.
    is_trivial = len(drilldown.children("step")) == 1 and len(path) > 1
    parts = [part for part in path if not (is_trivial and part.part == LOCAL)]
    # An operator that only the slower system has is no difference between operators.
    shared = [part for part in parts if part.level != "operator" or not pd.isna(part.a_s)]
    pieces += _shared_pieces(shared, step, records)
    for part in parts[len(shared) :]:
        pieces += _fill(
            ". There, {slower} spends {time} {location}, which {faster} does not have",
            slower=slower,
            time=_traced_ms(part.b_s, part.records or records),
            location=labels.cause_label(part.level, part.part),
            faster=faster,
        )
    reason = drilldown.stop_reason
    pieces += [f". {labels.capitalise(reason)}." if reason else "."]
    if not 1 / DISTORTION_LIMIT < step.difference_s / timed.difference_s < DISTORTION_LIMIT:
        pieces += [
            " Instrumentation changed the difference: its times hold for instrumented steps only."
        ]
    return pieces


def _shared_pieces(
    parts: Sequence[Difference], step: Difference, records: tuple[str, ...]
) -> Pieces:
    """Build the list of the parts, as shares of the difference between instrumented steps.

    A part whose difference exceeds that of the step, because other parts are shorter, has no share.
    """
    has_shares = all(part.difference_s <= step.difference_s for part in parts)
    first, other = (
        ("Of these, {time} ({fraction}) are {location}", "{time} ({fraction}) {location}")
        if has_shares
        else ("Its time {location} is {time} longer", "that {location} is {time} longer")
    )
    pieces: Pieces = []
    for index, part in enumerate(parts):
        own = part.records or records
        fraction = f"{part.difference_s / step.difference_s:.0%}"
        pieces += ["" if index == 0 else " and " if index == len(parts) - 1 else ", "]
        pieces += _fill(
            other if index else first,
            time=_traced_ms(part.difference_s, own),
            fraction=TracedNumber(fraction, tuple(dict.fromkeys([*own, *records]))),
            location=_location_pieces(part, own),
        )
    return pieces if has_shares else [*pieces, ", while other parts are shorter"]


def _location_pieces(part: Difference, records: tuple[str, ...]) -> Pieces:
    """Return the name of a part, with its times in both systems."""
    location = labels.cause_label(part.level, part.part)
    if part.level == "class" and part.parent == LOCAL:
        location += " in all phases"
    if pd.isna(part.a_s):
        return [f"{location}, which the other does not have"]
    if part.part == LOCAL or pd.isna(part.b_s):
        return [location]
    slow, fast = _traced_ms(part.b_s, records), _traced_ms(part.a_s, records)
    return [f"{location} (", slow, " against ", fast, ")"]


def _caveat_pieces(row: Mapping[Any, Any], *, states_level: bool) -> Pieces:
    """Build the sentences on weaknesses of the evidence."""
    template = ""
    if states_level and row["level"] < 0.95 and not pd.isna(row["ratio_low"]):
        template += " With {blocks} the interval attains a level of {level} at best"
        has_verdict = row["outcome"] != "not settled"
        template += "; the verdict depends on the t test." if has_verdict else "."
    if row["blocks"] < row["planned"]:
        template += " Of {planned} planned blocks some are missing: {reason}."
    if row["disturbed"]:
        template += " Other programs or a set clock disturbed {disturbed} of the runs."
    return _fill(
        template,
        blocks=TracedNumber(f"{row['blocks']} blocks", row["records"]),
        level=f"{row['level']:.0%}",
        planned=f"{row['planned']}",
        reason=shorten(row["reason"]),
        disturbed=TracedNumber(f"{row['disturbed']}", row["records"]),
    )


def _traced_ms(value_s: float, records: tuple[str, ...]) -> TracedNumber:
    return TracedNumber(format_ms(value_s), records)
