"""The index of the book: where each term of the glossary stands."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from horizont.reporting.glossary import PAGE as GLOSSARY
from horizont.reporting.glossary import Term, terms

#: The name of the page.
PAGE = "terms"

#: Of a term that is used nearly everywhere, so many pages are listed beside those that explain it.
LISTED = 5

#: A text that explains a term marks it.
_MARK = re.compile(rf'href="{GLOSSARY}\.html#([\w-]+)"')

_TAGS = re.compile(r"<[^>]*>|\$[^$]*\$|`[^`]*`")

Cell = dict[str, Any]


def index_cells(pages: Mapping[str, tuple[str, Sequence[Cell]]]) -> list[Cell]:
    """Write the index as the cells of a page.

    Parameters
    ----------
    pages
        Title and cells of each page, by its name, in the order of the book.
    """
    texts = {name: (title, _text(cells)) for name, (title, cells) in pages.items()}
    entries = "\n".join(
        line for term in sorted(terms().values(), key=_order) if (line := _entry(term, texts))
    )
    head = (
        "# Index of terms\n\nThe terms of the glossary, and the pages whose text uses them. In "
        "bold: the pages that explain a term. Tables and figures are found by the search."
    )
    return [_markdown(head), _markdown(entries)]


def _order(term: Term) -> str:
    return term.term.casefold()


def _entry(term: Term, texts: Mapping[str, tuple[str, str]]) -> str:
    """Write a term with its pages; nothing if no page uses it."""
    word = re.compile(rf"\b{_stem(term.term)}", re.IGNORECASE)
    places = []
    for name, (title, text) in texts.items():
        if name == GLOSSARY:
            continue
        explained = term.mark in _MARK.findall(text)
        if explained or word.search(_TAGS.sub(" ", text)):
            link = f'<a href="{name}.html">{html.escape(title)}</a>'
            places.append(f"<strong>{link}</strong>" if explained else link)
    if not places:
        return ""
    explaining = [place for place in places if place.startswith("<strong>")]
    others = [place for place in places if place not in explaining]
    if len(others) > LISTED:
        others = [*others[:LISTED], f"and {len(others) - LISTED} more pages"]
    places = [*explaining, *others]
    return f"**{term.term}**: {' · '.join(places)}\n"


def _stem(term: str) -> str:
    """Match a term and its plural; nothing longer, for a weight is no weighted sum."""
    words = r"[\s-]+".join(re.escape(word) for word in re.split(r"[\s-]", term))
    plural = rf"(?:{words[:-1]}ies|{words})" if term.endswith("y") else words
    return rf"{plural}(?:e?s)?\b"


def _text(cells: Sequence[Cell]) -> str:
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def _markdown(text: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": text}
