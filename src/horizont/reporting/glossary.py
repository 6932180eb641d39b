"""The terms of the theory, explained, and translated into German and Greek."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from horizont.errors import UserError

FILE = Path(__file__).with_name("glossary.json")

#: The notebook that shows all terms; links to it mark a term in other notebooks.
PAGE = "theory-glossary"

#: A term as notebooks mark it: `[saturated](theory-glossary.ipynb#saturation)`.
MARK = re.compile(rf"\[([^\]]+)\]\({PAGE}\.ipynb#([\w-]+)\)")


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    term: str
    german: str
    greek: str
    meaning: str

    @property
    def mark(self) -> str:
        """The term's part of an address."""
        return self.term.replace(" ", "-")


@cache
def terms() -> dict[str, Term]:
    """Read all terms, by the mark of each."""
    entries = [Term(**entry) for entry in json.loads(FILE.read_text(encoding="utf-8"))]
    return {entry.mark: entry for entry in entries}


def with_terms(text: str) -> str:
    """Make the marked terms of a text links that tell the translations.

    Raises
    ------
    UserError
        If a term is not in the glossary.
    """
    return MARK.sub(_link, text)


def _link(found: re.Match[str]) -> str:
    words, mark = found.groups()
    if mark not in terms():
        raise UserError("term", mark, sorted(terms()))
    entry = terms()[mark]
    said = f"{entry.term}: {entry.german} · {entry.greek}"
    return (
        f'<a class="hz-term" href="{PAGE}.html#{mark}" title="{html.escape(said)}">'
        f"{html.escape(words)}</a>"
    )


@dataclass(frozen=True)
class Glossary:
    """Some terms as a table with an address for each."""

    entries: tuple[Term, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        rows = "\n".join(_row(entry) for entry in self.entries)
        heads = "".join(
            f'<th class="hz-left">{head}</th>' for head in ("term", "German", "Greek", "meaning")
        )
        page = (
            f'<div class="hz-table hz-glossary"><table>\n<thead><tr>{heads}</tr></thead>\n'
            f"<tbody>\n{rows}\n</tbody>\n</table></div>"
        )
        plain = "\n".join(f"{e.term}: {e.german}, {e.greek}. {e.meaning}" for e in self.entries)
        return {"text/html": page, "text/plain": plain}


def _row(entry: Term) -> str:
    cells = (
        f"<strong>{html.escape(entry.term)}</strong>",
        f'<span lang="de">{html.escape(entry.german)}</span>',
        f'<span lang="el">{html.escape(entry.greek)}</span>',
        html.escape(entry.meaning),
    )
    body = "".join(f'<td class="hz-left">{cell}</td>' for cell in cells)
    return f'<tr id="{entry.mark}">{body}</tr>'


def glossary() -> Glossary:
    """Show all terms."""
    return Glossary(tuple(terms().values()))
