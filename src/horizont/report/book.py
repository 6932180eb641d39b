"""The book: the executed notebooks as a site that needs nothing but a browser."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from horizont.errors import UserError
from horizont.report.pages import Page, read_page
from horizont.report.printed import print_book
from horizont.report.site import TITLE, build_site, slim_down

#: Chapter -> its heading in the table of contents, in the order of the book.
CHAPTERS = {
    "overview": "Overview",
    "theory": "Theory",
    "data": "The data",
    "equivalence": "Equivalence",
    "local": "Local training",
    "operators": "Operators",
    "input": "Input pipelines",
    "distributed": "Distributed training",
    "cluster": "A cluster of hosts",
    "links": "Ring against servers",
    "scaling": "Scaling",
    "resources": "Resources",
    "incidents": "Incidents",
    "verdicts": "Verdicts",
    "decision": "The decision",
    "claims": "Then and now",
    "frameworks": "The frameworks",
}

#: The printed book, beside the site's pages.
PRINTED = "horizont.pdf"

#: The chapter that is the front page.
FRONT = "overview"


def build_book(executed: Sequence[tuple[str, Path]], out: Path) -> Path:
    """Assemble the book.

    Parameters
    ----------
    executed
        Chapter (a key of `CHAPTERS`) and executed notebook of each page, in the order wanted
        inside a chapter. One is the overview, which becomes the front page.
    out
        The folder of the site; replaced.

    Returns
    -------
    Path
        The front page.

    Raises
    ------
    UserError
        If a chapter is not known, the overview or a notebook is missing, or a notebook failed.
    """
    for chapter, _ in executed:
        if chapter not in CHAPTERS:
            raise UserError("chapter", chapter, CHAPTERS)
    pages = [
        read_page(chapter, path, CHAPTERS[chapter], front=chapter == FRONT)
        for chapter, path in executed
    ]
    if not any(page.chapter == FRONT for page in pages):
        raise UserError("book", "no overview", f"an executed notebook for the chapter {FRONT}")
    with tempfile.TemporaryDirectory(prefix="horizont-book-") as folder:
        source, built = Path(folder, "source"), Path(folder, "site")
        write_sources(pages, source)
        for fault in build_site(source, built, Path(folder, "doctrees")):
            print(f"book: {fault}", file=sys.stderr)
        slim_down(built)
        print_book(pages, built / PRINTED, TITLE)
        _replace(built, out)
    return out / "index.html"


def write_sources(pages: Sequence[Page], source: Path) -> None:
    """Write the pages and the table of contents for Sphinx."""
    source.mkdir(parents=True)
    for page in pages:
        page.write(source, contents=_contents(pages) if page.chapter == FRONT else "")


def _contents(pages: Sequence[Page]) -> str:
    """Write the table of contents: a part a chapter, its pages below."""
    parts = [f'<p class="hz-printed"><a href="{PRINTED}">This book as a PDF</a></p>']
    for chapter, heading in CHAPTERS.items():
        own = [page for page in pages if page.chapter == chapter and chapter != FRONT]
        if own:
            body = "\n".join(f"{p.title} <{p.name}>" if p.title else p.name for p in own)
            parts.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{body}\n```")
    return "\n\n".join(parts)


def _replace(built: Path, out: Path) -> None:
    """Put the new site in the place of the old one."""
    try:
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(built, out)
    except OSError as error:
        raise UserError("book", str(out), f"a folder that can be written ({error})") from None
