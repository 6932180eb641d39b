"""The published claims for readers: every sentence is built from the verdicts, none is written."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from horizont.analysis.claims import VERDICTS, published_times, read_sources, then_and_now
from horizont.records import Record
from horizont.report import figures, words
from horizont.report.findings import Remark
from horizont.report.picture import Picture
from horizont.report.tables import Table, facts, plain_table

#: A claim with its verdict, as `horizont.analysis.claims.judge` gives it.
Judged = Mapping[str, Any]

_SYSTEM = re.compile(r"\b(?:tensorflow|pytorch|mxnet)/[a-z_/]+(?:\+\w+)?")
_WORKLOAD = re.compile(r"\b[a-z0-9]+(?:-small)?-(?:cifar100?|fashion-mnist|ptb)\b")


@dataclass(frozen=True)
class ClaimText:
    """A claim, what was found, and from which records; each sentence a text of its own.

    Attributes
    ----------
    said
        The claim and its verdict.
    found
        The parts that were tested.
    untested
        The parts that could not be, each with what would decide it.
    """

    id: str
    verdict: str
    said: str
    found: tuple[str, ...]
    untested: tuple[str, ...]
    records: tuple[str, ...]

    def html(self) -> str:
        """Write the claim as a section that the check of the book finds again."""
        records = [f"<code>{html.escape(name)}</code>" for name in self.records]
        return (
            f'<section class="hz-claim" id="claim-{self.id}"><p>{self._headed()}</p>\n'
            f"{_items(self.found)}{_folded('not tested', _items(self.untested), self.untested)}"
            f"{_folded('records', ', '.join(records), self.records)}</section>"
        )

    def _headed(self) -> str:
        """Set the name of the claim and its verdict apart."""
        said = html.escape(self.said).replace(self.id, f"<strong>{self.id}</strong>", 1)
        verdict = f"Verdict: {self.verdict}."
        return said.replace(verdict, f"<strong>{verdict}</strong>", 1)

    def text(self) -> str:
        """Write the sentences one below the other."""
        return "\n".join([self.said, *self.found])


def _items(sentences: Sequence[str]) -> str:
    body = "".join(f"<li>{html.escape(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>{body}</ul>" if body else ""


def _folded(name: str, body: str, counted: Sequence[str]) -> str:
    """Fold a list away under its length."""
    if not counted:
        return ""
    return f"<details><summary>{len(counted)} {name}</summary>{body}</details>"


@dataclass(frozen=True)
class ClaimTexts:
    """The claims of a publication."""

    claims: tuple[ClaimText, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/html": "\n".join(claim.html() for claim in self.claims),
            "text/plain": "\n\n".join(claim.text() for claim in self.claims),
        }


def claim_texts(judged: Sequence[Judged], source: str) -> ClaimTexts:
    """Tell of each claim of a publication what was claimed, and what the records say.

    Parameters
    ----------
    source
        How claims name their publication: ``NTUA 2021``.
    """
    return ClaimTexts(
        tuple(claim_text(claim) for claim in judged if claim["source"].startswith(source))
    )


def claim_text(claim: Judged) -> ClaimText:
    """Build the sentences on a claim from its verdict."""
    published = claim["published_value"]
    figure = "No figure" if published == "qualitative" else f"Published: {published}"
    said = f"{claim['id']} ({claim['source']}). {_capital(claim['claim'])}. "
    said += f"Conditions: {claim['conditions']}. {figure}. Verdict: {claim['verdict']}."
    if claim["reason"]:
        said += f" {_capital(_readable(claim['reason']))}."
    tested = [part for part in claim["parts"] if part["verdict"] != "not testable here"]
    others = [part for part in claim["parts"] if part["verdict"] == "not testable here"]
    return ClaimText(
        claim["id"],
        claim["verdict"],
        said,
        tuple(_part(part) for part in tested),
        tuple(_untested(part) for part in others),
        tuple(claim["records"]),
    )


def _part(part: Judged) -> str:
    """Tell a part: today's figure with its interval, the published one, and the threshold."""
    said = _about(part)
    if part["value"] is None:
        return f"{said}: {part['verdict']}; {part['reason']} ({part['conditions']})."
    said += f": {_today(part)}"
    if part["published"] is not None:
        said += f"; published {number(part['published'])}"
    return f"{said}; {_needed(part)}: {part['verdict']} ({part['conditions']})."


def _untested(part: Judged) -> str:
    needed = f"; {_needed(part)}" if part["expect"] else ""
    return f"{_about(part)}{needed}. {_capital(_readable(part['reason']))}."


def _about(part: Judged) -> str:
    place = f"{part['workload']}: " if part["workload"] else ""
    return _readable(place + part["what"])


def _today(part: Judged) -> str:
    if part["low"] is None:
        return f"{number(part['value'])} from one block"
    interval = f"{number(part['low'])} to {number(part['high'])}"
    unit = "runs" if part["reason"].endswith("learned") else "blocks"
    return f"{number(part['value'])} ({interval}, {part['n']} {unit}, level {part['level']:.0%})"


def _needed(part: Judged) -> str:
    if part["expect"] == "equal":
        return "must lie within 10 % of 1"
    return f"must lie {part['expect']} {number(part['threshold'])}"


def number(value: float) -> str:
    """Write a figure with three digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _readable(text: str) -> str:
    """Put words in the place of the names that settings use."""
    text = _WORKLOAD.sub(lambda found: words.workload_name(found[0]), text)
    return _SYSTEM.sub(lambda found: _system(found[0]), text)


def _system(name: str) -> str:
    return f"{words.framework(words.framework_of(name))} ({words.mode(name)})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def claim_summary(judged: Sequence[Judged]) -> str:
    """Count the verdicts in a sentence."""
    counts = {name: sum(c["verdict"] == name for c in judged) for name in VERDICTS}
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"Of {len(judged)} published claims: {said}."


def claim_counts(judged: Sequence[Judged]) -> Remark:
    """Show how many claims came to which verdict."""
    return Remark(claim_summary(judged))


def claim_table(judged: Sequence[Judged]) -> Table:
    """List the claims with their verdicts, by publication."""
    rows = [
        {
            "source": _publication(claim["source"]),
            "claim": claim["id"],
            "verdict": claim["verdict"],
            "today": _figures(claim),
            "published": _published(claim),
            "what was claimed": claim["claim"],
        }
        for claim in judged
    ]
    return plain_table(pd.DataFrame(rows), group_by="source" if rows else None)


def _publication(source: str) -> str:
    return next((name for name in read_sources() if source.startswith(name)), source)


def _published(claim: Judged) -> str:
    """Give the published figures; what was said in words stands in the last column."""
    value = str(claim["published_value"])
    return value if any(letter.isdigit() for letter in value) else "–"


def _figures(claim: Judged) -> str:
    values = [number(part["value"]) for part in claim["parts"] if part["value"] is not None]
    return " / ".join(values) or "–"


def source_facts() -> Table:
    """Name the publications in full, with their set-ups."""
    return facts(
        {
            name: f"{found.author}, {found.title}, {found.kind}, {found.year}. {found.setup}."
            for name, found in read_sources().items()
        }
    )


def then_now_pictures(
    by_workload: Mapping[str, Sequence[Record]],
) -> list[Picture | Remark]:
    """Draw then and now for each workload that was published; the others are named.

    Parameters
    ----------
    by_workload
        The records of one distributed experiment on each workload.
    """
    published = set(published_times()["workload"])
    shown: list[Picture | Remark] = []
    shown += [_then_now(name, own) for name, own in by_workload.items() if name in published]
    others = [words.workload_name(name) for name in by_workload if name not in published]
    if others:
        shown.append(Remark(f"Without published times by phase: {', '.join(others)}."))
    return shown


def _then_now(workload: str, records: Sequence[Record]) -> Picture:
    experiment = records[0].run.experiment if records else "no experiment"
    caption = (
        f"{words.workload_name(workload)}: published times (2021, three machines) and those "
        f"measured here ({experiment}), each in units of PyTorch with synchronous all-reduce at "
        "its time. Published network times are what distributed training took longer than one "
        "process; here transfer and waiting are measured, and the update stands apart where it "
        "is not the server's."
    )
    found = then_and_now(workload, records)
    return Picture(figures.then_now_bars(found), f"then-now-{workload}", caption, found)
