"""From the cells of a page to Typst: text by Pandoc, tables and figures by hand."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from horizont.reporting.pages import SITE_ONLY
from horizont.reporting.printed.slim import slim
from horizont.reporting.style import FONT

#: The font of figures on paper; Matplotlib brings it along, in Latin and Greek.
FIGURE_FONT = "DejaVu Sans"

#: A block of Typst in Markdown, which Pandoc hands through.
_RAW = "\n\n```{{=typst}}\n{}\n```\n\n"

#: A reference to a figure or a table of the page.
_REFERENCE = re.compile(r'<a class="hz-reference"[^>]*>([^<]+)</a>')

#: The line under the head of a table.
_LINE = "table.hline(stroke: 0.6pt)"

_TABLES = re.compile(r"<table.*?</table>", re.DOTALL)

#: Names of records, folded away on the site, under their number.
_RECORDS = re.compile(
    r"<details[^>]*><summary>([^<]* records?\b[^<]*)</summary>(.*?)</details>", re.DOTALL
)

#: What else is folded away there: paper has its number only.
_FOLDED = re.compile(r"<details[^>]*><summary>([^<]*)</summary>.*?</details>", re.DOTALL)

_CAPTION = re.compile(r"<caption>.*?>([^<]+)\.</span>(.*?)</caption>", re.DOTALL)

#: Tables with more columns than this are set on a smaller size.
_WIDE = 6


def markdown_of(cells: list[dict[str, Any]], pictures: Path) -> str:
    """Write the cells of a page as Markdown with blocks of Typst.

    Parameters
    ----------
    pictures
        A folder for the figures.
    """
    pieces = []
    for place, cell in enumerate(cells):
        if SITE_ONLY in cell["metadata"].get("tags", []):
            continue
        if cell["cell_type"] == "markdown":
            pieces.append(_plain("".join(cell["source"])))
        for number, output in enumerate(cell.get("outputs", [])):
            pieces.append(_output(cell, output, pictures / f"{place}-{number}.svg"))
    return "\n\n".join(piece for piece in pieces if piece)


def _plain(text: str) -> str:
    """Leave out what only a site has: its table of contents, and addresses of its pages."""
    text = re.sub(r"^```\{toctree\}.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^:::+.*$", "", text, flags=re.MULTILINE)
    text = _REFERENCE.sub(lambda f: f"`#link(<{_label(f[1])}>)[{f[1]}]`{{=typst}}", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def _output(cell: dict[str, Any], output: dict[str, Any], picture: Path) -> str:
    data = output.get("data", {})
    if "text/markdown" in data:
        return _plain("".join(data["text/markdown"]))
    page = "".join(data.get("text/html", ""))
    if "<svg" in page:
        return _figure(page, cell["metadata"].get("figure", {}), picture)
    if "<table" in page:
        return "".join(_RAW.format(_table(each)) for each in _TABLES.findall(page)) + _words(
            _TABLES.sub("", page)
        )
    return _words(page)


def _words(page: str) -> str:
    """Write what is neither figure nor table: paragraphs, and lists with a line an item."""
    page = _RECORDS.sub(lambda found: _RAW.format(_small(*found.groups())), page)
    page = _FOLDED.sub(r"<p>\1: the site lists what</p>", page)
    page = re.sub(r"</?strong>", "**", page)
    lined = re.sub(r"<li>", "\n- ", re.sub(r"</(?:p|ul|section|summary)>", "\n\n", page))
    return html.unescape(re.sub(r"<[^>]+>", "", lined)).strip()


def _small(said: str, names: str) -> str:
    """Set the names of records in small print that breaks between them."""
    listed = names.replace("</li><li>", ", ")
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", listed)).split()).replace(" ,", ",")
    style = "#set text(size: 7.5pt, fill: luma(90), hyphenate: false)\n#set par(justify: false)"
    return f"#block[{style}\n{escaped(said)}: {escaped(text)}]"


def _figure(page: str, about: Mapping[str, str], path: Path) -> str:
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)
    assert svg is not None
    drawn = re.sub(r"<style>.*?</style>", "", svg[0], flags=re.DOTALL)
    drawn = drawn.replace(FONT, FIGURE_FONT)
    if "xmlns=" not in drawn.split(">", 1)[0]:
        drawn = drawn.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    path.write_text(slim(drawn), encoding="utf-8")
    image = f'image("/{path.parent.name}/{path.name}", width: 100%)'
    if not about.get("caption"):
        return _RAW.format(f"#{image}")
    caption = f"*{about['said']}.* {escaped(about['caption'])}"
    label = _label(about["said"])
    return _RAW.format(
        f"#figure({image}, caption: [{caption}], numbering: none, supplement: none) <{label}>"
    )


def _label(said: str) -> str:
    """Name what `Figure 3` or `Table 3` is called by."""
    return said.lower().replace(" ", "-")


def escaped(text: str) -> str:
    """Write plain text so that nothing in it means anything to Typst."""
    return re.sub(r"([\\#$*_`<>@\[\]~])", r"\\\1", text)


@dataclass
class _Cells(HTMLParser):
    """The rows of an HTML table: of each cell its text, its columns, and whether it is a head."""

    rows: list[list[tuple[str, int, bool]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._text: list[str] | None = None
        self._span = 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row or a cell."""
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._text = []
            self._span = int(dict(attrs).get("colspan") or 1)

    def handle_data(self, data: str) -> None:
        """Gather the text of a cell."""
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        if tag in ("td", "th") and self._text is not None:
            self.rows[-1].append(("".join(self._text).strip(), self._span, tag == "th"))
            self._text = None


def _table(page: str) -> str:
    parser = _Cells()
    parser.feed(page)
    rows = _without_empty([row for row in parser.rows if row])
    columns = max(sum(span for _, span, _ in row) for row in rows)
    size = "7.5pt" if columns > _WIDE else "8.5pt"
    heads = [row for row in rows[:1] if all(head for _, _, head in row)]
    head = "".join(f"table.header({', '.join(_cells(row, columns))}, {_LINE}),\n" for row in heads)
    cells = ",\n  ".join(cell for row in rows[len(heads) :] for cell in _cells(row, columns))
    aligned = ", ".join(_alignment(rows, columns))
    body = (
        f"[#set text(size: {size})\n#set par(justify: false)\n"
        f"#table(columns: {columns}, align: ({aligned},), stroke: none, inset: (x: 3pt, y: 3pt),\n"
        f"  {head}  {cells},\n)]"
    )
    caption = _CAPTION.search(page)
    if not caption:
        return f"#block(breakable: true){body}"
    said, about = caption[1], escaped(breakable(_words(caption[2])))
    return (
        f"#figure({body}, kind: table, caption: [*{said}.* {about}], numbering: none, "
        f"supplement: none) <{_label(said)}>"
    )


def _without_empty(rows: list[list[tuple[str, int, bool]]]) -> list[list[tuple[str, int, bool]]]:
    """Leave out columns in which nothing but a heading stands: paper is narrow."""
    whole = [row for row in rows if all(span == 1 for _, span, _ in row)]
    body = [row for row in whole if not all(head for _, _, head in row)]
    if not body:
        return rows
    kept = [place for place in range(len(body[0])) if any(row[place][0] for row in body)]
    return [[row[place] for place in kept] if row in whole else row[:1] for row in rows]


def _cells(row: list[tuple[str, int, bool]], columns: int) -> Iterator[str]:
    width = 0
    for text, wanted, head in row:
        span = min(wanted, columns)
        width += span
        shown = f"*{escaped(text)}*" if head and text else escaped(breakable(text))
        yield f"table.cell(colspan: {span})[{shown}]" if span > 1 else f"[{shown}]"
    yield from ["[]"] * (columns - width)


def breakable(text: str) -> str:
    """Let a long name break behind its slashes, underscores and colons."""
    return re.sub(r"(?<=[/_:.])(?=\w)", "\u200b", text) if len(text) > 18 else text


def _alignment(rows: list[list[tuple[str, int, bool]]], columns: int) -> list[str]:
    """Set columns of numbers at the right."""
    body = [row for row in rows if len(row) == columns and not all(head for _, _, head in row)]
    found = []
    for place in range(columns):
        texts = [row[place][0] for row in body if row[place][0] not in ("", "–")]
        numbers = texts and all(re.match(r"^[-−+]?[\d.,]+([eE]-?\d+)?\s?%?$", t) for t in texts)
        found.append("right" if numbers else "left")
    return found
