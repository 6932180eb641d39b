"""The published claims for readers: every sentence is built from the verdicts, none is written."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from horizont.analysis.claims.findings import VERDICTS
from horizont.analysis.claims.judge import published_vs_measured
from horizont.analysis.claims.rules import published_times, read_sources
from horizont.config.system import FRAMEWORKS
from horizont.records.record import Record
from horizont.reporting import figures, labels
from horizont.reporting.findings import Message
from horizont.reporting.page import FigureOutput
from horizont.reporting.tables import Table, key_value_table, text_table

#: A claim with its verdict, as `horizont.analysis.claims.judge` gives it.
JudgedClaim = Mapping[str, Any]

_SYSTEM = re.compile(rf"\b(?:{'|'.join(FRAMEWORKS)})/[a-z_/]+(?:\+\w+)?")
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
    statement: str
    findings: tuple[str, ...]
    not_tested: tuple[str, ...]
    records: tuple[str, ...]

    def html(self) -> str:
        """Write the claim as a section that the check of the book finds again."""
        records = [f"<code>{html.escape(name)}</code>" for name in self.records]
        return (
            f'<section class="hz-claim" id="claim-{self.id}"><p>{self._heading()}</p>\n'
            f"{_html_items(self.findings)}{_collapsible('not tested', _html_items(self.not_tested), self.not_tested)}"
            f"{_collapsible('records', ', '.join(records), self.records)}</section>"
        )

    def _heading(self) -> str:
        """Set the name of the claim and its verdict apart."""
        said = html.escape(self.statement).replace(self.id, f"<strong>{self.id}</strong>", 1)
        verdict = f"Verdict: {self.verdict}."
        return said.replace(verdict, f"<strong>{verdict}</strong>", 1)

    def text(self) -> str:
        """Write the sentences one below the other."""
        return "\n".join([self.statement, *self.findings])


def _html_items(sentences: Sequence[str]) -> str:
    body = "".join(f"<li>{html.escape(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>{body}</ul>" if body else ""


def _collapsible(name: str, body: str, items: Sequence[str]) -> str:
    """Fold a list away under its length."""
    if not items:
        return ""
    return f"<details><summary>{len(items)} {name}</summary>{body}</details>"


@dataclass(frozen=True)
class ClaimTexts:
    """The claims of a publication."""

    claims: tuple[ClaimText, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/html": "\n".join(claim.html() for claim in self.claims),
            "text/plain": "\n\n".join(claim.text() for claim in self.claims),
        }


def claim_texts(claims: Sequence[JudgedClaim], source: str) -> ClaimTexts:
    """Tell of each claim of a publication what was claimed, and what the records say.

    Parameters
    ----------
    source
        How claims name their publication: ``NTUA 2021``.
    """
    return ClaimTexts(
        tuple(claim_text(claim) for claim in claims if claim["source"].startswith(source))
    )


def claim_text(claim: JudgedClaim) -> ClaimText:
    """Build the sentences on a claim from its verdict."""
    published = claim["published_value"]
    figure = "No figure" if published == "qualitative" else f"Published: {published}"
    said = f"{claim['id']} ({claim['source']}). {_capitalise(claim['claim'])}. "
    said += f"Conditions: {claim['conditions']}. {figure}. Verdict: {claim['verdict']}."
    if claim["reason"]:
        said += f" {_capitalise(_with_display_names(claim['reason']))}."
    tested = [part for part in claim["parts"] if part["verdict"] != "not testable"]
    others = [part for part in claim["parts"] if part["verdict"] == "not testable"]
    return ClaimText(
        claim["id"],
        claim["verdict"],
        said,
        tuple(_finding_sentence(part) for part in tested),
        tuple(_not_tested_sentence(part) for part in others),
        tuple(claim["records"]),
    )


def _finding_sentence(finding: JudgedClaim) -> str:
    """Tell a part: today's figure with its interval, the published one, and the threshold."""
    said = _subject(finding)
    if finding["value"] is None:
        return f"{said}: {finding['verdict']}; {finding['reason']} ({finding['conditions']})."
    said += f": {_measured_text(finding)}"
    if finding["published"] is not None:
        said += f"; published {format_figure(finding['published'])}"
    return f"{said}; {_threshold_text(finding)}: {finding['verdict']} ({finding['conditions']})."


def _not_tested_sentence(finding: JudgedClaim) -> str:
    needed = f"; {_threshold_text(finding)}" if finding["expect"] else ""
    return f"{_subject(finding)}{needed}. {_capitalise(_with_display_names(finding['reason']))}."


def _subject(finding: JudgedClaim) -> str:
    place = f"{finding['workload']}: " if finding["workload"] else ""
    return _with_display_names(place + finding["subject"])


def _measured_text(finding: JudgedClaim) -> str:
    if finding["low"] is None:
        return f"{format_figure(finding['value'])} from one block"
    interval = f"{format_figure(finding['low'])} to {format_figure(finding['high'])}"
    unit = "runs" if finding["reason"].endswith("learned") else "blocks"
    return f"{format_figure(finding['value'])} ({interval}, {finding['n']} {unit}, level {finding['level']:.0%})"


def _threshold_text(finding: JudgedClaim) -> str:
    if finding["expect"] == "equal":
        return "must lie within 10 % of 1"
    return f"must lie {finding['expect']} {format_figure(finding['threshold'])}"


def format_figure(value: float) -> str:
    """Write a figure with three digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _with_display_names(text: str) -> str:
    """Put words in the place of the names that settings use."""
    text = _WORKLOAD.sub(lambda found: labels.workload_label_from_name(found[0]), text)
    return _SYSTEM.sub(lambda found: _system_text(found[0]), text)


def _system_text(name: str) -> str:
    return f"{labels.framework_label(labels.framework_of(name))} ({labels.synchronisation_label(name)})"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def claim_summary(claims: Sequence[JudgedClaim]) -> str:
    """Count the verdicts in a sentence."""
    counts = {name: sum(c["verdict"] == name for c in claims) for name in VERDICTS}
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"Of {len(claims)} published claims: {said}."


def claim_counts(claims: Sequence[JudgedClaim]) -> Message:
    """Show how many claims came to which verdict."""
    return Message(claim_summary(claims))


def claim_table(claims: Sequence[JudgedClaim]) -> Table:
    """List the claims with their verdicts, by publication."""
    rows = [
        {
            "source": _publication_label(claim["source"]),
            "claim": claim["id"],
            "verdict": claim["verdict"],
            "today": _format_figures(claim),
            "published": _published_figures(claim),
            "what was claimed": claim["claim"],
        }
        for claim in claims
    ]
    return text_table(pd.DataFrame(rows), group_by="source" if rows else None)


def _publication_label(source: str) -> str:
    return next((name for name in read_sources() if source.startswith(name)), source)


def _published_figures(claim: JudgedClaim) -> str:
    """Give the published figures; what was said in words stands in the last column."""
    value = str(claim["published_value"])
    return value if any(letter.isdigit() for letter in value) else "–"


def _format_figures(claim: JudgedClaim) -> str:
    values = [format_figure(part["value"]) for part in claim["parts"] if part["value"] is not None]
    return " / ".join(values) or "–"


def source_facts() -> Table:
    """Name the publications in full, with their set-ups."""
    return key_value_table(
        {
            name: f"{found.author}, {found.title}, {found.kind}, {found.year}. {found.setup}."
            for name, found in read_sources().items()
        }
    )


def published_vs_measured_figures(
    by_workload: Mapping[str, Sequence[Record]],
) -> list[FigureOutput | Message]:
    """Draw then and now for each workload that was published; the others are named.

    Parameters
    ----------
    by_workload
        The records of one distributed experiment on each workload.
    """
    published = set(published_times()["workload"])
    shown: list[FigureOutput | Message] = []
    shown += [
        _published_vs_measured_figure(name, own)
        for name, own in by_workload.items()
        if name in published
    ]
    others = [
        labels.workload_label_from_name(name) for name in by_workload if name not in published
    ]
    if others:
        shown.append(Message(f"Without published times by phase: {', '.join(others)}."))
    return shown


def _published_vs_measured_figure(workload: str, records: Sequence[Record]) -> FigureOutput:
    experiment = records[0].run.experiment if records else "no experiment"
    caption = (
        f"{labels.workload_label_from_name(workload)}: published times (2021, three machines) and those "
        f"measured here ({experiment}), each in units of PyTorch with synchronous all-reduce at "
        "its time. Published network times are what distributed training took longer than one "
        "process; here transfer and waiting are measured, and the update stands apart where it "
        "is not the server's."
    )
    found = published_vs_measured(workload, records)
    return FigureOutput(
        figures.published_vs_measured_bars(found), f"then-now-{workload}", caption, found
    )


_CLAIM_SECTION_PATTERN = re.compile(
    r'<section class="hz-claim" id="claim-(\w+)">(.*?)</section>', re.DOTALL
)
_TAG_PATTERN = re.compile(r"<[^>]+>")
_CLAIM_ID_PATTERN = re.compile(r"\b[JNK]\d\d\b")
_SENTENCE_END_PATTERN = re.compile(r"\n|[.!?](?=\s|$)")
_BLOCK_END_PATTERN = re.compile(r"\n\n+|</(?:tr|p|li|h\d|div|section)>")
_COUNT_PATTERN = re.compile(r"Of \d+ published claims: [^.]+\.")


def check_page(
    notebook: Path, claims: Sequence[JudgedClaim], records: Collection[str]
) -> list[str]:
    """List what a page says that the verdicts do not.

    Parameters
    ----------
    executed
        The executed notebook of the page.
    judged
        As of ``reports/claims.json``.
    records
        The names of the records at hand.

    Returns
    -------
    list of str
        Empty if every sentence agrees and every figure has its records.
    """
    by_id = {str(claim["id"]): claim for claim in claims}
    faults = [*_claims_without_records(claims, records)]
    shown: set[str] = set()
    for text in _page_texts(notebook):
        for name, section in _CLAIM_SECTION_PATTERN.findall(text):
            shown.add(name)
            faults += _section_errors(name, section, by_id)
        blocks = [
            _strip_tags(block)
            for block in _BLOCK_END_PATTERN.split(_CLAIM_SECTION_PATTERN.sub("", text))
        ]
        faults += _prose_errors("\n".join(blocks), claims, by_id)
    faults += [f"{name}: the page does not show it" for name in by_id if name not in shown]
    return faults


def _page_texts(notebook: Path) -> Iterator[str]:
    """Read all that a reader sees: prose, and what cells have shown."""
    import nbformat  # takes seconds, and only this reads a notebook

    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            yield cell.source
        for output in cell.get("outputs", []):
            data: Mapping[str, Any] = output.get("data", {})
            text = data.get("text/html") or data.get("text/markdown") or data.get("text/plain", "")
            yield "".join(text)


def _strip_tags(text: str) -> str:
    return html.unescape(" ".join(_TAG_PATTERN.sub(" ", text).split()))


def _normalise_spaces(text: str) -> list[str]:
    return _strip_tags(text).split()


def _section_errors(name: str, section: str, by_id: Mapping[str, JudgedClaim]) -> Iterator[str]:
    if name not in by_id:
        yield f"{name}: there is no such claim"
        return
    wanted = _normalise_spaces(claim_text(by_id[name]).html())
    found = _normalise_spaces(section)
    if found != wanted:
        wrong = next(
            (f for f, w in zip(found, wanted, strict=False) if f != w), "a part is missing"
        )
        yield f"{name}: the page does not say what the records say, at {wrong!r}"


def _prose_errors(
    text: str, claims: Sequence[JudgedClaim], by_id: Mapping[str, JudgedClaim]
) -> Iterator[str]:
    """Look for sentences that name a claim with another verdict than its own, or wrong counts."""
    for counted in _COUNT_PATTERN.findall(text):
        if counted != claim_summary(claims):
            yield f"the page counts {counted!r}, the verdicts are {claim_summary(claims)!r}"
    for claim in claims:  # what was claimed may itself name another claim
        text = text.replace(" ".join(claim["claim"].split()), "")
    for sentence in _SENTENCE_END_PATTERN.split(text):
        said = _verdict_in(sentence)
        for name in _CLAIM_ID_PATTERN.findall(sentence) if said else ():
            if name not in by_id:
                yield f"{name}: there is no such claim"
            elif said != by_id[name]["verdict"]:
                yield f"{name}: the page says {said}, the records say {by_id[name]['verdict']}"


def _verdict_in(sentence: str) -> str | None:
    """Find the one verdict that a sentence speaks of; `not reproduced` is no `reproduced`."""
    for verdict in sorted(VERDICTS, key=len, reverse=True):
        if verdict in sentence:
            return verdict
    return None


def _claims_without_records(
    claims: Sequence[JudgedClaim], records: Collection[str]
) -> Iterator[str]:
    for claim in claims:
        for part in claim["parts"]:
            if part["value"] is not None and not part["records"]:
                yield f"{claim['id']}: {part['value']} has no record"
            for name in part["records"]:
                if name not in records:
                    yield f"{claim['id']}: the record {name} is not there"
