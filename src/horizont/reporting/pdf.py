"""The PDF: Sphinx' singlehtml, converted to Typst by Pandoc and set by Typst."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from horizont.errors import Problem, UserError
from horizont.reporting.pdf_tables import new_tag, set_table
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

#: Symbols that Pandoc calls as an earlier version of Typst did.
_OLD_SYMBOLS = re.compile(r"\b(dot|plus|minus|times)\.circle\b")

_SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


def build_pdf(html: Path, template: Path, out: Path, day: date | None = None) -> None:
    """Convert a book in one HTML file; the template is Typst code in front of the text.

    The day is that of the title page and of the file, which have none otherwise.

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
            typst.compile(
                str(source),
                output=str(out),
                root=name,
                font_paths=[str(fonts)],
                sys_inputs={"date": day.isoformat()} if day else {},
            )
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
        set_table(table)
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
        for rubric in page.select("p.rubric"):
            _set_rubric(rubric)
        yield page


def _set_rubric(rubric: Any) -> None:
    """Make a heading in an output, which Sphinx shows as a paragraph, one below its section's."""
    levels = [
        int(heading.name[1])
        for section in rubric.find_parents("section")
        for heading in section.find_all(re.compile(r"^h[1-6]$"), recursive=False)
    ]
    rubric.name = f"h{max(levels, default=1) + 1}"
    del rubric["class"]


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
    return text and text.wrap(new_tag("span"))
