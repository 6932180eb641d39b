"""The published claims: sentences built from their verdicts, and the check of their page."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horizont.analysis.claims.findings import VERDICTS
from horizont.analysis.claims.observations import EVIDENCE_LEVELS
from horizont.analysis.claims.publications import publication_of, published_times, read_sources
from horizont.config.system import FRAMEWORKS
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.figures.published import published_vs_measured_figure
from horizont.reporting.output import Bundle, Message, Stack, TableOutput, key_value_table
from horizont.reporting.registry import table
from horizont.reporting.tables import text_table
from horizont.wording import counted

#: A claim with its verdict, as in ``reports/claims.json``.
JudgedClaim = Mapping[str, Any]

#: The study that a claim was judged by.
REFERENCE, FOLDER = "reference", "folder"

_SYSTEM = re.compile(rf"\b(?:{'|'.join(FRAMEWORKS)})/[a-z_/]+(?:\+\w+)?")
_WORKLOAD = re.compile(r"\b[a-z0-9]+(?:-small)?-(?:cifar100?|fashion-mnist|ptb)\b")

#: Parts of an executed page.
_SECTION = re.compile(r'<section class="hz-claim" id="claim-(\w+)">(.*?)</section>', re.DOTALL)
_FIGURE = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_CLAIM_ID = re.compile(r"\b[JNK]\d\d\b")
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)")
_BLOCK_END = re.compile(r"\n\n+|</(?:tr|p|li|h\d|div|section)>")
_COUNTS = re.compile(r"Of \d+ published claims: [^.]+\.")


@dataclass(frozen=True)
class ClaimTexts:
    """The sentences on the claims of a publication."""

    claims: tuple[JudgedClaim, ...]

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        return {
            "text/html": "\n".join(map(claim_html, self.claims)),
            "text/plain": "\n\n".join(map(claim_text, self.claims)),
        }


@table("claim_texts", title="Each claim")
def claim_texts(claims: Sequence[JudgedClaim], source: str) -> ClaimTexts:
    """Build the sentences on the claims of a publication, for example ``NTUA 2021``."""
    return ClaimTexts(tuple(claim for claim in claims if claim["source"].startswith(source)))


def claim_text(claim: JudgedClaim) -> str:
    """Return the claim with its verdict, and a sentence for each part that was tested."""
    return "\n".join([_statement(claim), *map(_finding_sentence, _tested_parts(claim))])


def claim_html(claim: JudgedClaim) -> str:
    """Return a section on a claim, found again by `check_page`."""
    verdict = f"Verdict: {claim['verdict']}."
    statement = html.escape(_statement(claim))
    for words in (claim["id"], verdict):
        statement = statement.replace(words, f"<strong>{words}</strong>", 1)
    tested = _tested_parts(claim)
    others = [part for part in claim["parts"] if part not in tested]
    page = f'<section class="hz-claim" id="claim-{claim["id"]}"><p>{statement}</p>\n'
    page += _html_list(map(_finding_sentence, tested))
    records = ", ".join(f"<code>{html.escape(name)}</code>" for name in claim["records"])
    repetition = claim.get("repetition", ())
    for count, name, body in (
        (len(others), f"{len(others)} not tested", _html_list(map(_not_tested_sentence, others))),
        (len(claim["records"]), counted(len(claim["records"]), "record"), records),
        (
            len(repetition),
            f"{counted(len(repetition), 'command')} to run them again",
            _html_list(map(_repetition_sentence, repetition)),
        ),
    ):
        if count:
            page += f"<details><summary>{name}</summary>{body}</details>"
    return f"{page}</section>"


def _html_list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def _tested_parts(claim: JudgedClaim) -> list[JudgedClaim]:
    return [part for part in claim["parts"] if part["verdict"] != "not testable"]


def _statement(claim: JudgedClaim) -> str:
    published = claim["published_value"]
    value = "No value" if published == "qualitative" else f"Published: {published}"
    statement = f"{claim['id']} ({claim['source']}). {labels.capitalise(claim['claim'])}. "
    statement += f"Conditions: {claim['conditions']}. {value}. Verdict: {claim['verdict']}."
    if claim["evidence"]:
        statement += f" Evidence: {claim['evidence']} ({EVIDENCE_LEVELS[claim['evidence']]})."
        if claim["level"]:
            statement += f" Intervals: {claim['level']:.0%}."
        if claim.get("study") == FOLDER:
            statement += " Judged by the study of this folder."
    if claim["reason"]:
        statement += f" {labels.capitalise(_with_display_names(claim['reason']))}."
    return statement


def _finding_sentence(finding: JudgedClaim) -> str:
    """Return the measured value with its interval, the published one, and the threshold."""
    subject, verdict = _subject(finding), finding["verdict"]
    conditions = f"{_with_display_names(finding['conditions'])}; evidence {finding['evidence']}"
    if not finding["decides"]:
        verdict += ", not part of the claim"
    if finding["value"] is None:
        return f"{subject}: {verdict}; {finding['reason']} ({conditions})."
    published = finding["published"]
    reference = "" if published is None else f"; published {_format_value(published)}"
    measured = f"{subject}: {_measured_text(finding)}{reference}"
    reason = f", {finding['reason']}" if finding["reason"] else ""
    return f"{measured}; {_threshold_text(finding)}: {verdict}{reason} ({conditions})."


def _not_tested_sentence(finding: JudgedClaim) -> str:
    threshold = f"; {_threshold_text(finding)}" if finding["expect"] else ""
    reason = labels.capitalise(_with_display_names(finding["reason"]))
    return f"{_subject(finding)}{threshold}. {reason}."


def _repetition_sentence(cost: Mapping[str, Any]) -> str:
    """Return the command that executes runs, and what they take."""
    memory = cost["memory_mib"]
    peak = f", at most {memory / 1024:.1f} GiB of memory" if memory else ""
    return (
        f"horizont run {cost['experiment']} {cost['workload']}: {counted(cost['runs'], 'run')}, "
        f"{cost['minutes']:.0f} min{peak}, {cost['disk_mib']:.1f} MiB of records."
    )


def _subject(finding: JudgedClaim) -> str:
    workload = f"{finding['workload']}: " if finding["workload"] else ""
    return _with_display_names(workload + finding["subject"])


def _measured_text(finding: JudgedClaim) -> str:
    value, unit = _format_value(finding["value"]), finding["unit"]
    if finding["low"] is None:
        return f"{value} from one {unit.removesuffix('s')}"
    interval = f"{_format_value(finding['low'])} to {_format_value(finding['high'])}"
    sided = "one-sided level" if unit == "runs" else "level"
    return f"{value} ({interval}, {finding['n']} {unit}, {sided} {finding['level']:.0%})"


def _threshold_text(finding: JudgedClaim) -> str:
    if finding["expect"] == "equal":
        return f"must be within {finding['within'] - 1:.0%} of 1"
    return f"must be {finding['expect']} {_format_value(finding['threshold'])}"


def _format_value(value: float) -> str:
    """Format a value with three significant digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _with_display_names(text: str) -> str:
    """Replace names of the settings by display names."""
    text = _WORKLOAD.sub(lambda match: labels.workload_label_from_name(match[0]), text)
    return _SYSTEM.sub(lambda match: labels.system_label_in_text(match[0]), text)


@table("claim_counts")
def claim_counts(claims: Sequence[JudgedClaim]) -> Message:
    """Build the sentence with the numbers of claims by verdict."""
    counts = Counter(claim["verdict"] for claim in claims)
    listed = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
    return Message(f"Of {len(claims)} published claims: {listed}.")


@table("claims", title="All claims")
def claim_table(claims: Sequence[JudgedClaim]) -> TableOutput:
    """Build the table of the claims with their verdicts, grouped by publication."""
    rows = []
    for claim in claims:
        values = [part["value"] for part in claim["parts"] if part["value"] is not None]
        published = str(claim["published_value"])
        is_qualitative = re.search(r"\d", published) is None  # then it is in the content
        rows.append(
            {
                "source": publication_of(claim["source"]),
                "claim": claim["id"],
                "verdict": claim["verdict"],
                "evidence": claim["evidence"] or "–",
                "today": " / ".join(map(_format_value, values)) or "–",
                "published": "–" if is_qualitative else published,
                "content": claim["claim"],
            }
        )
    return text_table(rows, group_by="source")


@table("evidence_levels", title="Evidence")
def evidence_table() -> TableOutput:
    """Build the legend of the evidence levels."""
    return key_value_table({name: f"{text}." for name, text in EVIDENCE_LEVELS.items()})


@table("publications", title="The publications")
def source_table() -> TableOutput:
    """Build the table of the publications and their set-ups."""
    return key_value_table(
        {
            name: f"{source.author}, {source.title}, {source.kind}, {source.year}. {source.setup}."
            for name, source in read_sources().items()
        }
    )


@table("published_vs_measured", title="Published and measured times")
def published_vs_measured_figures(records_by_workload: Mapping[str, Sequence[Record]]) -> Stack:
    """Plot published times beside those of one distributed experiment on each workload.

    Workloads without published times are named.
    """
    published = set(published_times()["workload"])
    outputs: list[Any] = [
        published_vs_measured_figure(workload, records)
        for workload, records in records_by_workload.items()
        if workload in published
    ]
    if others := [name for name in records_by_workload if name not in published]:
        names = ", ".join(map(labels.workload_label_from_name, others))
        outputs.append(Message(f"Without published times by phase: {names}."))
    return Stack(tuple(outputs))


def check_page(
    notebook: Path, claims: Sequence[JudgedClaim], records: Mapping[str, Collection[str]]
) -> list[str]:
    """List the disagreements of an executed page with the verdicts of ``reports/claims.json``.

    `records` has the names of the available records by study; a clone has the report without those
    of its own study.
    """
    by_id = {str(claim["id"]): claim for claim in claims}
    errors = [*_missing_records(claims, records)]
    shown: set[str] = set()
    for output in _page_texts(notebook):
        text = _FIGURE.sub("", output)  # the words in a figure are no sentences
        for claim_id, section in _SECTION.findall(text):
            shown.add(claim_id)
            errors += _section_errors(claim_id, section, by_id)
        blocks = _BLOCK_END.split(_SECTION.sub("", text))
        errors += _prose_errors("\n".join(map(_strip_tags, blocks)), by_id)
    errors += [f"{name}: the page does not show it" for name in by_id if name not in shown]
    return errors


def _page_texts(notebook: Path) -> Iterator[str]:
    """Yield the texts that a reader sees: prose and outputs."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            text = data.get("text/html") or data.get("text/markdown") or data.get("text/plain", "")
            yield "".join(text)


def _strip_tags(text: str) -> str:
    return html.unescape(" ".join(_TAG.sub(" ", text).split()))


def _section_errors(claim_id: str, section: str, by_id: Mapping[str, JudgedClaim]) -> Iterator[str]:
    if claim_id not in by_id:
        yield f"{claim_id}: there is no such claim"
        return
    expected = _strip_tags(claim_html(by_id[claim_id])).split()
    words = _strip_tags(section).split()
    if words != expected:
        pairs = zip(words, expected, strict=False)
        first = next((word for word, other in pairs if word != other), "a part is missing")
        yield f"{claim_id}: the page disagrees with the records at {first!r}"


def _prose_errors(text: str, by_id: Mapping[str, JudgedClaim]) -> Iterator[str]:
    """Yield sentences with wrong counts, or that name a claim with a wrong verdict."""
    summary = claim_counts(list(by_id.values())).text
    for counts in _COUNTS.findall(text):
        if counts != summary:
            yield f"the page counts {counts!r}, the verdicts are {summary!r}"
    for claim in by_id.values():  # the text of a claim may itself name another one
        text = text.replace(" ".join(claim["claim"].split()), "")
    longest_first = sorted(VERDICTS, key=len, reverse=True)  # `not reproduced` is not `reproduced`
    for sentence in _SENTENCE_END.split(text):
        verdict = next((verdict for verdict in longest_first if verdict in sentence), None)
        for claim_id in _CLAIM_ID.findall(sentence) if verdict else ():
            if claim_id not in by_id:
                yield f"{claim_id}: there is no such claim"
            elif verdict != by_id[claim_id]["verdict"]:
                recorded = by_id[claim_id]["verdict"]
                yield f"{claim_id}: the page says {verdict}, the records say {recorded}"


def _missing_records(
    claims: Sequence[JudgedClaim], records: Mapping[str, Collection[str]]
) -> Iterator[str]:
    for claim in claims:
        names = records.get(claim.get("study", FOLDER))
        for part in claim["parts"]:
            if part["value"] is not None and not part["records"]:
                yield f"{claim['id']}: {part['value']} has no record"
            for name in part["records"]:
                if names is not None and name not in names:
                    yield f"{claim['id']}: the record {name} does not exist"
