"""The bibliography, and the sources that texts name, which lead to it.

A text names a source by author and year, as people do: `(Amdahl, 1967)`, `Hopfield's (1982)`,
`Gers et al., 2000`. The first author's name and the year are the key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

#: The name of the page and of its document.
PAGE = "bibliography"

#: An entry: `- Amdahl, G. M. (1967). Validity of ...`
_ENTRY = re.compile(r"^- ((?P<author>[\w’'-]+),.*?\((?P<year>\d{4})\))", re.MULTILINE)

_NAMED = re.compile(
    r"\b(?P<author>[A-ZÀ-Ž][\w’-]+?)(?:['’]s)?(?: and [A-ZÀ-Ž][\w-]+| et al\.)?,? "
    r"(?P<open>\()?(?P<year>(?:18|19|20)\d\d)\b(?(open)\))"
)


def add_addresses(cells: Sequence[dict[str, Any]]) -> frozenset[str]:
    """Give each entry of a bibliography an address, in place.

    Returns
    -------
    frozenset of str
        All addresses.
    """
    found = set()
    for cell in cells:
        found |= {_key(entry) for entry in _ENTRY.finditer(cell["source"])}
        cell["source"] = _ENTRY.sub(_marked, cell["source"])
    return frozenset(found)


def _marked(entry: re.Match[str]) -> str:
    return f'- <span id="{_key(entry)}"></span>{entry[1]}'


def with_sources(text: str, known: Collection[str]) -> str:
    """Link the sources that a text names, as far as the bibliography has them."""

    def cited(found: re.Match[str]) -> str:
        if _key(found) not in known:
            return found[0]
        return f'<a class="hz-source" href="{PAGE}.html#{_key(found)}">{found[0]}</a>'

    return _NAMED.sub(cited, text)


def _key(found: re.Match[str]) -> str:
    return f"{found['author'].lower()}-{found['year']}"
