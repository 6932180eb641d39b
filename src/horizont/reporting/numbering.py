"""Numbers for figures and tables, one count for the site and for paper, and references to them."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from horizont.errors import UserError

#: A table that has headings; named facts, which have none, are no table to speak of.
TABLE = re.compile(r'<div class="hz-table([^"]*)"><table>(?=\s*<thead><tr)')

#: A reference as notebooks write it: `[Figure](#figure-phases)`, `[Table](#table-throughput)`.
REFERENCE = re.compile(r"\[[^\]]*\]\(#((?:figure|table)-[\w-]+)\)")

_HEADING = re.compile(r"^#{1,4} +(.+?)\s*$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)

Cell = dict[str, Any]


@dataclass
class Counts:
    """How many figures and tables there have been so far in the book."""

    figure: int = 0
    table: int = 0


@dataclass
class _Page:
    """What is known of a page while it is gone through."""

    counts: Counts
    source: str
    heading: str = ""
    said: dict[str, str] = field(default_factory=dict)

    def name(self, kind: str, about: str) -> str:
        """Find an address that is free on the page and remember what stands there."""
        wanted = f"{kind}-{_slug(about)}"
        name, again = wanted, 1
        while name in self.said:
            again += 1
            name = f"{wanted}-{again}"
        number = getattr(self.counts, kind) + 1
        setattr(self.counts, kind, number)
        self.said[name] = f"{kind.capitalize()} {number}"
        return name


def number_page(cells: Sequence[Cell], counts: Counts, title: str = "", source: str = "") -> None:
    """Give numbers to what a page shows, in place, and resolve its references.

    Parameters
    ----------
    cells
        Of one page; a figure stands alone in its cell, and its metadata say so.
    title
        What the page's own heading is; a table before any other heading is named by it.
    source
        Where the numbers of its tables come from.

    Raises
    ------
    UserError
        If a reference leads nowhere.
    """
    page = _Page(counts, source, title)
    for cell in cells:
        if cell["cell_type"] == "markdown":
            page.heading = _last_heading(cell["source"]) or page.heading
        for output in cell.get("outputs", []):
            _number_output(page, cell, output)
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = REFERENCE.sub(lambda found: _link(found, page.said), cell["source"])


def _last_heading(text: str) -> str:
    found = _HEADING.findall(_FENCED.sub("", text))
    return re.sub(r"[*_`]", "", found[-1]) if found else ""


def _number_output(page: _Page, cell: Cell, output: Cell) -> None:
    data = output.get("data", {})
    if "text/html" not in data:
        return
    text = "".join(data["text/html"])
    figure = cell["metadata"].get("figure")
    if figure:
        name = page.name("figure", figure["name"])
        said = page.said[name]
        figure["said"] = said
        head = f'<figcaption><span class="caption-number">{said}.</span> '
        text = text.replace("<figcaption>", head, 1).replace("<figure ", f'<figure id="{name}" ', 1)
    else:
        text = TABLE.sub(lambda found: _captioned(found, page), text)
    data["text/html"] = text


def _captioned(found: re.Match[str], page: _Page) -> str:
    name = page.name("table", page.heading)
    mark = "" if page.heading.endswith("?") else "."
    known = page.source and "hz-given" not in found[1]
    source = f" From <code>{html.escape(page.source)}</code>." if known else ""
    return (
        f'<div class="hz-table{found[1]}" id="{name}"><table>\n<caption>'
        f'<span class="caption-number">{page.said[name]}.</span> '
        f"{html.escape(page.heading.rstrip('.'))}{mark}{source}</caption>"
    )


def _link(found: re.Match[str], said: Mapping[str, str]) -> str:
    if found[1] not in said:
        raise UserError("reference", found[1], sorted(said) or "figures and tables of its page")
    return f'<a class="hz-reference" href="#{found[1]}">{said[found[1]]}</a>'


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
