"""Links between the pages of a book: those to a page that the book has not are mere words."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

#: A link to another notebook, or to a document of the project.
_TO_PAGE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./(?:docs|notebooks)/)?([\w-]+)\.(?:ipynb|md)(#[\w-]+)?\)"
)

#: A link as cells write it when they show links.
_SHOWN = re.compile(r'<a [^>]*href="([\w-]+)\.html[^"]*"[^>]*>(.*?)</a>', re.DOTALL)


def with_pages(text: str, pages: Mapping[str, str]) -> str:
    """Let links lead to the pages of the site.

    Parameters
    ----------
    text
        Markdown; a link names a notebook, or a document beside it or in ``../docs``.
    pages
        Page by the name of its notebook or document.
    """

    def led(found: re.Match[str]) -> str:
        words, name, place = found.groups()
        if name not in pages:
            return words
        return f'<a href="{pages[name]}.html{place or ""}">{words}</a>'

    return _TO_PAGE.sub(led, text)


def without_absent(page: str, pages: Collection[str]) -> str:
    """Make links of HTML to pages that there are not mere words."""
    return _SHOWN.sub(lambda found: found[0] if found[1] in pages else found[2], page)
