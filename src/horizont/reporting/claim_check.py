"""The check that the page of claims agrees with their verdicts."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from horizont.analysis.claims.findings import VERDICTS
from horizont.reporting.claims import FOLDER, JudgedClaim, claim_html, claim_summary

_SECTION = re.compile(r'<section class="hz-claim" id="claim-(\w+)">(.*?)</section>', re.DOTALL)
_FIGURE = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_CLAIM_ID = re.compile(r"\b[JNK]\d\d\b")
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)")
_BLOCK_END = re.compile(r"\n\n+|</(?:tr|p|li|h\d|div|section)>")
_COUNTS = re.compile(r"Of \d+ published claims: [^.]+\.")


def check_page(
    notebook: Path, claims: Sequence[JudgedClaim], records: Mapping[str, Collection[str]]
) -> list[str]:
    """List the disagreements of a page with the verdicts.

    Parameters
    ----------
    notebook
        The executed notebook of the page.
    claims
        Of ``reports/claims.json``.
    records
        The names of the available records by study; a clone has the report without those of its
        own study.
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
    import nbformat  # the import takes seconds

    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            yield cell.source
        for output in cell.get("outputs", []):
            data: Mapping[str, Any] = output.get("data", {})
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
    summary = claim_summary(list(by_id.values()))
    for counts in _COUNTS.findall(text):
        if counts != summary:
            yield f"the page counts {counts!r}, the verdicts are {summary!r}"
    for claim in by_id.values():  # the text of a claim may itself name another one
        text = text.replace(" ".join(claim["claim"].split()), "")
    for sentence in _SENTENCE_END.split(text):
        verdict = _verdict_in(sentence)
        for claim_id in _CLAIM_ID.findall(sentence) if verdict else ():
            if claim_id not in by_id:
                yield f"{claim_id}: there is no such claim"
            elif verdict != by_id[claim_id]["verdict"]:
                recorded = by_id[claim_id]["verdict"]
                yield f"{claim_id}: the page says {verdict}, the records say {recorded}"


def _verdict_in(sentence: str) -> str | None:
    """Return the verdict in a sentence; `not reproduced` is not `reproduced`."""
    longest_first = sorted(VERDICTS, key=len, reverse=True)
    return next((verdict for verdict in longest_first if verdict in sentence), None)


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
