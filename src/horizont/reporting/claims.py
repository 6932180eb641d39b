"""The published claims: sentences built from their verdicts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horizont.analysis.claims.findings import VERDICTS
from horizont.analysis.claims.observations import EVIDENCE_LEVELS
from horizont.analysis.claims.publications import (
    publication_of,
    published_times,
    read_sources,
)
from horizont.config.system import FRAMEWORKS
from horizont.records.record import Record
from horizont.reporting import labels
from horizont.reporting.figures.published import published_vs_measured_figure
from horizont.reporting.labels import capitalise
from horizont.reporting.output import Bundle, Message, Stack, TableOutput, key_value_table
from horizont.reporting.registry import table
from horizont.reporting.tables import text_table

#: A claim with its verdict, as in ``reports/claims.json``.
JudgedClaim = Mapping[str, Any]

#: The study that a claim was judged by.
REFERENCE, FOLDER = "reference", "folder"

_SYSTEM = re.compile(rf"\b(?:{'|'.join(FRAMEWORKS)})/[a-z_/]+(?:\+\w+)?")
_WORKLOAD = re.compile(r"\b[a-z0-9]+(?:-small)?-(?:cifar100?|fashion-mnist|ptb)\b")


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
    """Return a section on a claim, found again by `horizont.reporting.claim_check`."""
    verdict = f"Verdict: {claim['verdict']}."
    statement = html.escape(_statement(claim))
    for words in (claim["id"], verdict):
        statement = statement.replace(words, f"<strong>{words}</strong>", 1)
    tested = _tested_parts(claim)
    others = [part for part in claim["parts"] if part not in tested]
    records = ", ".join(f"<code>{html.escape(name)}</code>" for name in claim["records"])
    repetition = claim.get("repetition", ())
    commands = _html_list(map(_repetition_sentence, repetition))
    return (
        f'<section class="hz-claim" id="claim-{claim["id"]}"><p>{statement}</p>\n'
        + _html_list(map(_finding_sentence, tested))
        + _collapsible("not tested", _html_list(map(_not_tested_sentence, others)), len(others))
        + _collapsible("records", records, len(claim["records"]))
        + _collapsible("commands that repeat them", commands, len(repetition))
        + "</section>"
    )


def _html_list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def _collapsible(name: str, body: str, count: int) -> str:
    return f"<details><summary>{count} {name}</summary>{body}</details>" if count else ""


def _tested_parts(claim: JudgedClaim) -> list[JudgedClaim]:
    return [part for part in claim["parts"] if part["verdict"] != "not testable"]


def _statement(claim: JudgedClaim) -> str:
    published = claim["published_value"]
    value = "No value" if published == "qualitative" else f"Published: {published}"
    statement = f"{claim['id']} ({claim['source']}). {capitalise(claim['claim'])}. "
    statement += f"Conditions: {claim['conditions']}. {value}. Verdict: {claim['verdict']}."
    if claim["evidence"]:
        evidence = f"{claim['evidence']} ({_evidence_text(claim['evidence'])})"
        level = f" Intervals: {claim['level']:.0%}." if claim["level"] else ""
        statement += f" Evidence: {evidence}.{level}"
    if claim.get("study") == FOLDER and claim["evidence"]:
        statement += " Judged by the study of this folder."
    if claim["reason"]:
        statement += f" {capitalise(_with_display_names(claim['reason']))}."
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
    reason = capitalise(_with_display_names(finding["reason"]))
    return f"{_subject(finding)}{threshold}. {reason}."


def _repetition_sentence(cost: Mapping[str, Any]) -> str:
    """Return the command that executes runs, and what they take."""
    memory = cost["memory_mib"]
    peak = f", at most {memory / 1024:.1f} GiB of memory" if memory else ""
    return (
        f"horizont run {cost['experiment']} {cost['workload']}: {cost['runs']} runs, "
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


def _evidence_text(level: str) -> str:
    return next(text for name, text in EVIDENCE_LEVELS.items() if name == level)


def _format_value(value: float) -> str:
    """Format a value with three significant digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _with_display_names(text: str) -> str:
    """Replace names of the settings by display names."""
    text = _WORKLOAD.sub(lambda match: labels.workload_label_from_name(match[0]), text)
    return _SYSTEM.sub(lambda match: labels.system_label_in_text(match[0]), text)


def claim_summary(claims: Sequence[JudgedClaim]) -> str:
    """Return the numbers of claims by verdict in a sentence."""
    counts = {name: sum(claim["verdict"] == name for claim in claims) for name in VERDICTS}
    listed = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"Of {len(claims)} published claims: {listed}."


@table("claim_counts")
def claim_counts(claims: Sequence[JudgedClaim]) -> Message:
    """Build the sentence with the numbers of claims by verdict."""
    return Message(claim_summary(claims))


@table("claims", title="All claims")
def claim_table(claims: Sequence[JudgedClaim]) -> TableOutput:
    """Build the table of the claims with their verdicts, grouped by publication."""
    rows = [
        {
            "source": publication_of(claim["source"]),
            "claim": claim["id"],
            "verdict": claim["verdict"],
            "evidence": claim["evidence"] or "–",
            "today": _measured_values(claim),
            "published": _published_values(claim),
            "content": claim["claim"],
        }
        for claim in claims
    ]
    return text_table(rows, group_by="source")


def _published_values(claim: JudgedClaim) -> str:
    """Return the published values; qualitative ones are in the column of the content."""
    value = str(claim["published_value"])
    return value if any(character.isdigit() for character in value) else "–"


def _measured_values(claim: JudgedClaim) -> str:
    values = [_format_value(part["value"]) for part in claim["parts"] if part["value"] is not None]
    return " / ".join(values) or "–"


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
    others = [name for name in records_by_workload if name not in published]
    if others:
        names = ", ".join(map(labels.workload_label_from_name, others))
        outputs.append(Message(f"Without published times by phase: {names}."))
    return Stack(tuple(outputs))
