"""The PDF: Sphinx' singlehtml, converted to Typst by Pandoc and set by Typst."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from horizont.errors import Problem, UserError
from horizont.reporting.svg import FONT

#: The font of figures on paper; Matplotlib ships it.
_FIGURE_FONT = "DejaVu Sans"

#: Only a site has these: code, links to files, permalinks, cells marked as such.
_SITE_ONLY = (
    ".cell_input, details.hide, .hz-data, .headerlink, .tag_site-only, .hz-pdf, script, "
    ".citation > .label, .backrefs"
)

#: A table with more cells, such as that of all runs, fills pages that are not read on paper.
_MOST_CELLS = 400

#: Tables with more columns than this are set in smaller type.
_WIDE_TABLE = 6

#: Sizes of text in tables, and the attribute that Pandoc hands to Typst for the smaller one.
_TABLE_PT, _WIDE_TABLE_PT = 8.5, 7.5
_SMALL = {"data-typst:text:size": f"{_WIDE_TABLE_PT}pt"}

#: Width of a page without its margins, of the insets of a column, and of a typical character
#: relative to the size of its text.
_LINE_PT, _INSETS_PT, _CHARACTER_EM = 459.0, 6.0, 0.56

#: Symbols that Pandoc calls as an earlier version of Typst did.
_OLD_SYMBOLS = re.compile(r"\b(dot|plus|minus|times)\.circle\b")

_SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)
_WORD_ENDS = re.compile(r"[\s\u200b]+")
_NUMBER = re.compile(r"^[-−+]?[\d.,]+([eE]-?\d+)?\s?%?$")


def build_pdf(html: Path, template: Path, out: Path) -> None:
    """Convert a book in one HTML file; the template is Typst code in front of the text.

    Raises
    ------
    UserError
        If Pandoc or Typst cannot convert it.
    """
    import matplotlib as mpl
    import pypandoc
    import typst

    with tempfile.TemporaryDirectory(prefix="horizont-pdf-") as name:
        source = Path(name, "book.typ")
        page = _prepare(html.read_text(encoding="utf-8"), source.parent)
        try:
            text = pypandoc.convert_text(
                page, "typst", format="html-native_divs", extra_args=["--wrap=none"]
            )
            text = _OLD_SYMBOLS.sub(r"\1.o", text).replace("align(center)[#", "align(left)[#")
            source.write_text(template.read_text(encoding="utf-8") + text, encoding="utf-8")
            fonts = Path(mpl.get_data_path(), "fonts", "ttf")
            typst.compile(str(source), output=str(out), root=name, font_paths=[str(fonts)])
        except RuntimeError as error:
            message = " ".join(str(error).split())
            raise UserError(
                "PDF", Problem(message), "pages that Pandoc and Typst can convert"
            ) from None


def _prepare(page: str, folder: Path) -> str:
    """Prepare the HTML for Pandoc, and write its figures as files."""
    from bs4 import BeautifulSoup

    article = re.search(r"<article.*</article>", page, re.DOTALL)
    if article is None:
        raise UserError("PDF", Problem("no article"), "a page that Sphinx built")
    soup = BeautifulSoup(_extract_figures(article[0], folder), "html.parser")
    for element in soup.select(_SITE_ONLY):
        element.decompose()
    for chapter in _chapters(soup):
        soup.append(chapter)
    soup.article.decompose()
    for details in soup.select("details"):
        summary = details.summary.get_text()
        details.name, details.attrs = "p", {}
        details.string = f"{summary}: listed on the site."
    for code in soup.select(".highlight-python pre, .highlight-ipython3 pre"):
        code.string = code.get_text()
        code["class"] = "python"
    for paragraph in soup.select("li > p:only-child"):
        paragraph.unwrap()  # lists without space between their items
    for number in soup.select(".caption-number"):
        number.name, number.attrs = "strong", {}
        number.string = f"{number.get_text().strip()}."
        number.insert_after(" ")
    for figure in soup.select("figure.hz-table"):
        caption, table = figure.figcaption.extract(), figure.table.extract()
        rows = len(table.select("tbody tr"))
        if rows * len(table.select("thead th")) > _MOST_CELLS:
            caption.name = "p"
            caption.append(f" Its {rows} rows are on the site.")
            caption["id"] = figure.get("id", "")
            figure.replace_with(caption)
            continue
        caption.name = "caption"
        table.insert(0, caption)
        table["id"] = figure.get("id", "")
        figure.replace_with(table)
    for table in soup.select("table"):
        _set_table(table)
    _keep_used_anchors(soup)
    return str(soup)


def _extract_figures(page: str, folder: Path) -> str:
    """Write each SVG as a file, in a font that Typst has and without rules for dark pages."""

    def image(found: re.Match[str]) -> str:
        svg = re.sub(r"<style>.*?</style>", "", found[0], flags=re.DOTALL)
        svg = svg.replace(FONT, _FIGURE_FONT)
        if "xmlns=" not in svg.split(">", 1)[0]:
            svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        path = folder / f"figure-{found.start()}.svg"
        path.write_text(svg, encoding="utf-8")
        return f'<img src="{path.name}"/>'

    return _SVG.sub(image, page)


def _chapters(soup: Any) -> Iterator[Any]:
    """Yield the sections of all pages, the front page first, each with its headings from level 1.

    Sphinx nests the pages in the front page, where its table of contents is.
    """
    anchors = soup.select("[id^=document-]")
    pages = [(anchor["id"], anchor.find_next_sibling("section")) for anchor in anchors]
    for _, page in pages:
        page.extract()
    for name, page in [("document-index", soup.article.section), *pages]:
        headings = page.find_all(re.compile(r"^h[1-6]$"))
        surplus = int(headings[0].name[1]) - 1
        for heading in headings:
            heading.name = f"h{int(heading.name[1]) - surplus}"
            heading["id"] = heading.parent.attrs.pop("id", "")  # Pandoc drops the sections
        headings[0]["id"] = name
        yield page


def _set_table(table: Any) -> None:
    """Remove empty columns, align numbers, make long names breakable, and shrink wide tables."""
    rows = [row for row in table.select("tr") if not row.select("[colspan]")]
    width = 0
    for column in zip(*(row.find_all(["td", "th"]) for row in rows), strict=True):
        texts = [cell.get_text().strip() for cell in column if cell.name == "td"]
        if texts and not any(texts):
            for cell in column:
                cell.extract()
            continue
        width += 1
        known = [text for text in texts if text not in ("", "–")]
        is_number = bool(known) and all(_NUMBER.match(text) for text in known)
        for cell in column:
            cell["style"] = f"text-align: {'right' if is_number else 'left'}"
    for cell in table.select("[colspan]"):
        cell["colspan"] = width
    for cell in table.select("th"):
        cell.string = re.sub(r"(?<=_)(?=\w)", "\u200b", cell.get_text())
        cell.string.wrap(_new("strong"))
    for text in table.find_all(string=True):
        text.replace_with(breakable(str(text)))
    is_wide = width > _WIDE_TABLE
    if is_wide:
        table.attrs |= _SMALL
    columns = zip(*(row.find_all(["td", "th"]) for row in rows), strict=True)
    texts = [[cell.get_text().strip() for cell in column] for column in columns]
    _set_widths(table, column_widths(texts, _WIDE_TABLE_PT if is_wide else _TABLE_PT))


def _set_widths(table: Any, widths_pt: Sequence[float]) -> None:
    if widths_pt:
        group = _new("colgroup")
        for width_pt in widths_pt:
            group.append(_new("col", style=f"width: {100 * width_pt / _LINE_PT:.1f}%"))
        table.insert(1 if table.caption else 0, group)


def column_widths(columns: Sequence[Sequence[str]], text_pt: float) -> list[float]:
    """Return the widths of the columns of a table in points; none if no line must break.

    Typst divides the space equally among the columns that do not fit, so that a long note beside
    short names would be set word by word. Here a column that is longer has more lines and is wider:
    by the root of its length, up to that length, and not narrower than its longest word.
    """
    longest = [_width_pt(max(texts, key=len), text_pt) for texts in columns]
    words = [
        _width_pt(max(_WORD_ENDS.split("\n".join(texts)), key=len), text_pt) for texts in columns
    ]
    if sum(longest) <= _LINE_PT:
        return []

    def widths(scale: float) -> list[float]:
        return [
            min(whole, max(word, scale * whole**0.5))
            for whole, word in zip(longest, words, strict=True)
        ]

    low, high = 0.0, _LINE_PT
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(widths(middle)) <= _LINE_PT else (low, middle)
    found = widths(low)
    return [width * _LINE_PT / sum(found) for width in found]


def _width_pt(text: str, text_pt: float) -> float:
    return _INSETS_PT + _CHARACTER_EM * text_pt * len(text)


def breakable(text: str) -> str:
    """Return a text whose long names can break after slashes, underscores, colons and dots."""
    return re.sub(r"(?<=[/_:.])(?=\w)", "\u200b", text) if len(text) > 18 else text


def _keep_used_anchors(soup: Any) -> None:
    """Remove anchors that nothing links to, and links to what is not in the PDF."""
    links = soup.select("a[href]:not([href^='http:'], [href^='https:'])")
    for link in links:
        link["href"] = "#" + link["href"].rpartition("#")[2]
    missing = {link["href"] for link in links}
    for element in soup.select("[id]"):
        name = element.attrs.pop("id")
        if f"#{name}" in missing and (anchor := _anchor(element)) is not None:
            anchor["id"] = name
            missing.remove(f"#{name}")
    for link in links:
        if link["href"] in missing:
            link.unwrap()


def _anchor(element: Any) -> Any:
    """Return what keeps an anchor through Pandoc: the element, or a span around its first text."""
    if re.fullmatch(r"h\d|figure|table", element.name):
        return element
    text = next((text for text in element.find_all(string=True) if text.strip()), None)
    return text and text.wrap(_new("span"))


def _new(name: str, **attributes: str) -> Any:
    from bs4 import BeautifulSoup

    return BeautifulSoup("", "html.parser").new_tag(name, attrs=attributes)
