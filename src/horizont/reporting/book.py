"""The book: the executed notebooks as a site that needs nothing but a browser."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from horizont.errors import UserError
from horizont.reporting import citations, termindex
from horizont.reporting.glossary import PAGE as GLOSSARY
from horizont.reporting.numbering import Counts, number_page
from horizont.reporting.pages import Page, read_page, read_text
from horizont.reporting.printed.book import print_book
from horizont.reporting.site import TITLE, build_site, slim_down

#: Chapter -> its heading in the table of contents, in the order of the book.
CHAPTERS = {
    "overview": "Overview",
    "introduction": "Introduction",
    "chapters": "Theory",
    "frameworks": "The frameworks",
    "method": "Method",
    "data": "The data",
    "equivalence": "Equivalence",
    "local": "Local training",
    "operators": "Operators",
    "input": "Input pipelines",
    "distributed": "Distributed training",
    "cluster": "A cluster of hosts",
    "links": "Ring against servers",
    "scaling": "Scaling",
    "faults": "Incidents",
    "verdicts": "Verdicts",
    "decision": "The decision",
    "claims": "Then and now",
    "resources": "Resources",
    "bibliography": "Bibliography",
    "terms": "Index of terms",
}

#: The printed book, beside the site's pages.
PRINTED = "horizont.pdf"

#: The chapter that is the front page.
FRONT = "overview"


def build_book(
    executed: Sequence[tuple[str, Path]], out: Path, sources: Mapping[str, str] | None = None
) -> Path:
    """Assemble the book.

    Parameters
    ----------
    executed
        Chapter (a key of `CHAPTERS`) and executed notebook of each page, in the order wanted
        inside a chapter; a page of text alone is a document in Markdown. One is the overview,
        which becomes the front page.
    out
        The folder of the site; replaced.
    sources
        Where the numbers of a page come from, by the name of its notebook.

    Returns
    -------
    Path
        The front page.

    Raises
    ------
    UserError
        If a chapter is not known, the overview or a notebook is missing, or a notebook failed.
    """
    pages = prepared_pages(executed, sources or {})
    with tempfile.TemporaryDirectory(prefix="horizont-book-") as folder:
        source, built = Path(folder, "source"), Path(folder, "site")
        write_sources(pages, source)
        for fault in build_site(source, built, Path(folder, "doctrees")):
            print(f"book: {fault}", file=sys.stderr)
        slim_down(built)
        write_numbers(pages, built)
        print_book(pages, built / PRINTED, TITLE)
        _replace(built, out)
    return out / "index.html"


def prepared_pages(executed: Sequence[tuple[str, Path]], sources: Mapping[str, str]) -> list[Page]:
    """Read all pages in the order of the book, number what they show, and link them."""
    for chapter, _ in executed:
        if chapter not in CHAPTERS:
            raise UserError("chapter", chapter, CHAPTERS)
    order = list(CHAPTERS)
    ordered = sorted(executed, key=lambda each: order.index(each[0]))
    pages = [_read(chapter, path) for chapter, path in ordered]
    if not any(page.chapter == FRONT for page in pages):
        raise UserError("book", "no overview", f"an executed notebook for the chapter {FRONT}")
    names = {path.stem: page.name for page, (_, path) in zip(pages, ordered, strict=True)}
    bibliography = next((page for page in pages if page.name == citations.PAGE), None)
    cited = citations.add_addresses(bibliography.cells) if bibliography else frozenset()
    counts = Counts()
    for page, (_, path) in zip(pages, ordered, strict=True):
        number_page(page.cells, counts, page.heading, sources.get(path.stem, ""))
        page.link(names, cited if page is not bibliography else ())
        page.take_out_numbers()
    return [*pages, *_term_index(pages)]


def _read(chapter: str, path: Path) -> Page:
    if path.suffix == ".md":
        return read_text(chapter, path)
    return read_page(chapter, path, CHAPTERS[chapter], front=chapter == FRONT)


def _term_index(pages: Sequence[Page]) -> list[Page]:
    """Make the index of terms, if there is a glossary to lead to."""
    if not any(page.name == GLOSSARY for page in pages):
        return []
    found = {page.name: (page.heading, page.cells) for page in pages if page.name != "bibliography"}
    return [Page(termindex.PAGE, termindex.PAGE, "", termindex.index_cells(found))]


def write_sources(pages: Sequence[Page], source: Path) -> None:
    """Write the pages and the table of contents for Sphinx."""
    source.mkdir(parents=True)
    for page in pages:
        page.write(source, contents=_contents(pages) if page.chapter == FRONT else "")


def write_numbers(pages: Sequence[Page], site: Path) -> None:
    """Write the files with the numbers behind the figures."""
    for page in pages:
        for name, text in page.files.items():
            path = site / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


def _contents(pages: Sequence[Page]) -> str:
    """Write the table of contents: a part a chapter, its pages below."""
    parts = [f'<p class="hz-printed"><a href="{PRINTED}">This book as a PDF</a></p>']
    for chapter, heading in CHAPTERS.items():
        own = [page for page in pages if page.chapter == chapter and chapter != FRONT]
        if own:
            body = "\n".join(f"{p.title} <{p.name}>" if p.title else p.name for p in own)
            # A chapter of one page without a title of its own needs no heading above it.
            caption = "" if [p.title for p in own] == [""] else f":caption: {heading}\n"
            parts.append(f"```{{toctree}}\n:hidden:\n{caption}\n{body}\n```")
    return "\n\n".join(parts)


def _replace(built: Path, out: Path) -> None:
    """Put the new site in the place of the old one."""
    try:
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(built, out)
    except OSError as error:
        raise UserError("book", str(out), f"a folder that can be written ({error})") from None
