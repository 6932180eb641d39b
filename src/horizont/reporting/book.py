"""The book: executed notebooks and documents, built by Sphinx into a site and a PDF."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from horizont.errors import Problem, UserError
from horizont.reporting.book_pages import FRONT_STEM, Page, page_name, read_pages
from horizont.reporting.pdf import build_pdf

PDF_NAME = "horizont.pdf"

_EXTERNAL_IN_HTML = re.compile(
    r"""<(?!a\b)[^>]*?\b(?:src|srcset|poster|data|xlink:href)=["']\s*(?:https?:)?//[^"']*|"""
    r"""<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|icon))[^>]*\bhref=["'](?:https?:)?//[^"']*"""
)
_EXTERNAL_IN_CSS = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^"')]*""")


def build_book(
    pages: Sequence[tuple[str, Path]],
    project: Path,
    out: Path,
    table_sources: Mapping[str, str] | None = None,
    day: date | None = None,
) -> Path:
    """Build the site and the PDF; return the front page.

    Parameters
    ----------
    pages
        Chapter and file of each page: an executed notebook or a Markdown document. One of them
        is the overview, which becomes the front page.
    project
        The folder of conf.py, references.bib and template.typ.
    out
        The folder of the site; replaced.
    table_sources
        Where the values of a page's tables come from, by the name of its notebook.
    day
        The day of the PDF; without one it has none.

    Raises
    ------
    UserError
        If a page is missing, its notebook failed, a reference is dead, or the site would load
        something from the network.
    """
    read = read_pages(pages)
    with tempfile.TemporaryDirectory(prefix="horizont-book-") as name:
        folder = Path(name)
        source, site = folder / "source", folder / "site"
        _write_sources(read, project, source)
        sources = {page_name(page): text for page, text in (table_sources or {}).items()}
        settings = {"horizont_table_sources": sources}
        _run_sphinx("html", source, project, site, settings)
        _run_sphinx("singlehtml", source, project, folder / "single", settings)
        single = folder / "single" / "index.html"
        build_pdf(single, project / "template.typ", site / PDF_NAME, day)
        for path in [*site.rglob("*.map"), *site.rglob("*webpack-macros.html")]:
            path.unlink()  # of use to developers of the theme only
        if external := external_resources(site):
            raise UserError("book", external[0], "pages that load nothing from the network")
        try:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(site, out)
        except OSError as error:
            raise UserError("book", str(out), f"a writable folder ({error})") from None
    return out / "index.html"


def _write_sources(pages: Sequence[Page], project: Path, source: Path) -> None:
    """Write the pages and the bibliography for Sphinx."""
    source.mkdir(parents=True)
    for page in pages:
        if page.name == page_name(FRONT_STEM):
            page.append(_contents(pages))
        (source / f"{page.name}{page.suffix}").write_text(page.text, encoding="utf-8")
    for path in project.glob("*.bib"):
        shutil.copy(path, source)


def _contents(pages: Sequence[Page]) -> str:
    """Return the table of contents in Markdown: a toctree per chapter, and the index."""
    parts = [f'<p class="hz-pdf"><a href="{PDF_NAME}">This book as a PDF</a></p>']
    others = [page for page in pages if page.name != page_name(FRONT_STEM)]
    for chapter in dict.fromkeys(page.chapter for page in others):
        members = [page for page in others if page.chapter == chapter]
        entries = [f"{page.title} <{page.name}>" if page.title else page.name for page in members]
        # A chapter of one page without a title of its own needs no heading above it.
        is_single = [page.title for page in members] == [""]
        parts.append(_toctree("" if is_single else f":caption: {chapter}\n", *entries))
    return "\n\n".join([*parts, _toctree("", "Index of terms <genindex>")])


def _toctree(caption: str, *entries: str) -> str:
    return "\n".join([f"```{{toctree}}\n:hidden:\n{caption}", *entries, "```"])


def _run_sphinx(
    builder: str, source: Path, project: Path, out: Path, settings: Mapping[str, Any]
) -> None:
    """Run a builder of Sphinx, to which every warning is an error."""
    from sphinx.application import Sphinx  # takes a second, and notebooks import this module
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    warnings = io.StringIO()
    with patch_docutils(str(project)), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=project,
            outdir=out,
            doctreedir=source.parent / "doctrees",
            buildername=builder,
            confoverrides=dict(settings),
            status=None,
            warning=warnings,
            warningiserror=True,
        )
        app.build()
    if app.statuscode:
        text = re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).replace(f"{source}/", "")
        raise UserError("book", Problem(text.strip()), "pages without warnings of Sphinx")


def external_resources(site: Path) -> list[str]:
    """List what pages of a site would load from the network; links that readers follow may."""
    found = []
    for pattern, suffix in ((_EXTERNAL_IN_HTML, "*.html"), (_EXTERNAL_IN_CSS, "*.css")):
        for path in sorted(site.rglob(suffix)):
            matches = pattern.finditer(path.read_text(encoding="utf-8"))
            found += [f"{path.relative_to(site)}: {match[0]}" for match in matches]
    return found
