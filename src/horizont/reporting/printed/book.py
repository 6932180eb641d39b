"""The pages put together, with a title, a table of contents and numbers."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from horizont.errors import UserError
from horizont.reporting.pages import Page
from horizont.reporting.printed.cells import escaped, markdown_of

#: What Pandoc is told to read: the notebooks' Markdown, with formulas and blocks of Typst.
READ = "markdown+tex_math_dollars+raw_attribute+pipe_tables-auto_identifiers-citations"

#: Symbols by the name that Pandoc knows, where Typst has another since.
RENAMED = {
    name: name.replace(".circle", ".o")
    for name in ("dot.circle", "plus.circle", "minus.circle", "times.circle")
}

TEMPLATE = """\
#set document(title: "{title}")
#set page(paper: "a4", margin: (x: 24mm, top: 24mm, bottom: 22mm), numbering: "1")
#set text(font: ("Libertinus Serif", "DejaVu Sans"), size: 10.5pt, lang: "en")
#set par(justify: true, leading: 0.62em)
#set heading(numbering: "1.1")
#set figure(gap: 8pt)
#show figure.where(kind: table): set block(breakable: true)
#show figure.where(kind: table): set align(left)
#show figure.where(kind: table): set figure.caption(position: top)
#show figure.caption.where(kind: table): it => block(sticky: true, it)
#show figure.caption: set text(size: 9pt)
#show figure.caption: set align(left)
#show heading.where(level: 1): it => {{ pagebreak(weak: true); block(below: 14pt, it) }}
#show heading: set text(hyphenate: false)
#show heading: set par(justify: false)
#show link: set text(fill: rgb("#1f5f99"))
#show raw: set text(font: "DejaVu Sans Mono", size: 8.5pt)
#show raw.where(block: true): it => block(fill: luma(245), inset: 7pt, radius: 2pt, width: 100%, it)
#let horizontalrule = line(length: 100%, stroke: 0.5pt + luma(180))
#let blockquote(body) = block(inset: (left: 10pt), stroke: (left: 2pt + luma(200)), body)
#align(center + horizon)[
  #text(size: 30pt, weight: "bold")[{title}]
  #v(8pt)
  #text(size: 14pt)[{subtitle}]
  #v(30pt)
  {made}
]
#pagebreak()
#let leaders = (paint: luma(150), thickness: 0.6pt, dash: "loosely-dotted")
#set outline.entry(fill: line(length: 100%, stroke: leaders))
#outline(depth: 2, indent: auto)
"""


def print_book(pages: Sequence[Page], path: Path, title: str) -> None:
    """Set the pages in their order as a PDF.

    Raises
    ------
    UserError
        If Pandoc or Typst cannot make sense of a page.
    """
    import typst

    with tempfile.TemporaryDirectory(prefix="horizont-print-") as folder:
        root = Path(folder)
        parts = [_head(title)]
        for number, page in enumerate(pages):
            parts.append(_chapter(page, root / f"p{number}"))
        source = root / "book.typ"
        source.write_text("\n\n".join(parts), encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            typst.compile(str(source), output=str(path), root=str(root), font_paths=[_fonts()])
        except RuntimeError as error:
            words = " ".join(str(error).split())
            raise UserError("printed book", words, "pages that Typst can set") from None
        _pack(path)


def _pack(path: Path) -> None:
    """Compress what Typst writes object by object: thousands of them say what is a heading."""
    logging.getLogger("pikepdf").setLevel(logging.WARNING)  # it would greet
    import pikepdf

    with pikepdf.open(path, allow_overwriting_input=True) as book:
        together = pikepdf.ObjectStreamMode.generate
        book.save(path, object_stream_mode=together, recompress_flate=True)


def _head(title: str) -> str:
    made = date.today().strftime("%-d %B %Y")
    subtitle = "Which framework, which synchronisation, which architecture trains fastest, and why?"
    return TEMPLATE.format(title=escaped(title), subtitle=subtitle, made=made)


def _chapter(page: Page, pictures: Path) -> str:
    """Write a page as Typst; its first heading is that of the chapter."""
    import pypandoc

    pictures.mkdir()
    text = markdown_of(page.cells, pictures)
    try:
        made = str(pypandoc.convert_text(text, "typst", format=READ, extra_args=["--wrap=none"]))
    except RuntimeError as error:
        raise UserError(f"page {page.name}", str(error), "text that Pandoc can read") from None
    return re.sub(r"\b(?:dot|plus|minus|times)\.circle\b", lambda found: RENAMED[found[0]], made)


def _fonts() -> str:
    import matplotlib as mpl

    return str(Path(mpl.get_data_path()) / "fonts" / "ttf")
