"""Holding the page of claims against the verdicts: what it says must be what was found."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from horizont.analysis.claims import VERDICTS
from horizont.report.claims import Judged, claim_summary, claim_text

_SECTION = re.compile(r'<section class="hz-claim" id="claim-(\w+)">(.*?)</section>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_ID = re.compile(r"\b[JNK]\d\d\b")
_SENTENCE = re.compile(r"\n|[.!?](?=\s|$)")
_BLOCK = re.compile(r"\n\n+|</(?:tr|p|li|h\d|div|section)>")
_COUNTED = re.compile(r"Of \d+ published claims: [^.]+\.")


def disagreements(executed: Path, judged: Sequence[Judged], records: Collection[str]) -> list[str]:
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
    by_id = {str(claim["id"]): claim for claim in judged}
    faults = [*_without_records(judged, records)]
    shown: set[str] = set()
    for text in _texts(executed):
        for name, section in _SECTION.findall(text):
            shown.add(name)
            faults += _section_faults(name, section, by_id)
        blocks = [_plain(block) for block in _BLOCK.split(_SECTION.sub("", text))]
        faults += _prose_faults("\n".join(blocks), judged, by_id)
    faults += [f"{name}: the page does not show it" for name in by_id if name not in shown]
    return faults


def _texts(executed: Path) -> Iterator[str]:
    """Read all that a reader sees: prose, and what cells have shown."""
    import nbformat  # takes seconds, and only this reads a notebook

    for cell in nbformat.read(executed, as_version=4).cells:
        if cell.cell_type == "markdown":
            yield cell.source
        for output in cell.get("outputs", []):
            data: Mapping[str, Any] = output.get("data", {})
            text = data.get("text/html") or data.get("text/markdown") or data.get("text/plain", "")
            yield "".join(text)


def _plain(text: str) -> str:
    return html.unescape(" ".join(_TAG.sub(" ", text).split()))


def _words(text: str) -> list[str]:
    return _plain(text).split()


def _section_faults(name: str, section: str, by_id: Mapping[str, Judged]) -> Iterator[str]:
    if name not in by_id:
        yield f"{name}: there is no such claim"
        return
    wanted = _words(claim_text(by_id[name]).html())
    found = _words(section)
    if found != wanted:
        wrong = next(
            (f for f, w in zip(found, wanted, strict=False) if f != w), "a part is missing"
        )
        yield f"{name}: the page does not say what the records say, at {wrong!r}"


def _prose_faults(
    text: str, judged: Sequence[Judged], by_id: Mapping[str, Judged]
) -> Iterator[str]:
    """Look for sentences that name a claim with another verdict than its own, or wrong counts."""
    for counted in _COUNTED.findall(text):
        if counted != claim_summary(judged):
            yield f"the page counts {counted!r}, the verdicts are {claim_summary(judged)!r}"
    for claim in judged:  # what was claimed may itself name another claim
        text = text.replace(" ".join(claim["claim"].split()), "")
    for sentence in _SENTENCE.split(text):
        said = _verdict_in(sentence)
        for name in _ID.findall(sentence) if said else ():
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


def _without_records(judged: Sequence[Judged], records: Collection[str]) -> Iterator[str]:
    for claim in judged:
        for part in claim["parts"]:
            if part["value"] is not None and not part["records"]:
                yield f"{claim['id']}: {part['value']} has no record"
            for name in part["records"]:
                if name not in records:
                    yield f"{claim['id']}: the record {name} is not there"
