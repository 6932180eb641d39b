"""The pages of the book: executed notebooks and documents, as Sphinx is to read them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from horizont.errors import UserError
from horizont.reporting.output import FIGURE_MIME, STACK_MIME, STACK_SEPARATOR, TABLE_MIME

#: The stem of the file that becomes the front page.
FRONT_STEM = "overview"

#: Cells with these tags set parameters, or are not for readers.
_HIDDEN_TAGS = frozenset({"parameters", "injected-parameters", "remove-cell"})

#: How Sphinx is to colour the code.
_METADATA = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}

#: What the book takes from the HTML of a figure or a table.
_SVG = re.compile(r"<svg.*</svg>", re.DOTALL)
_CSV = re.compile(r'href="data:text/csv[^,]*,([^"]*)"')
_TABLE = re.compile(r"<table.*</table>", re.DOTALL)

_PAGE_LINK = re.compile(r"\[([^\]]+)\]\((?:[\w./]*/)?([\w-]+)\.(?:ipynb|md)(#[\w-]+)?\)")

#: Links of notebooks to the glossary and to the references, which are roles in the book only:
#: JupyterLab would show a role as its source. A term that is not the text is the anchor.
_TERM_LINK = re.compile(r"\[([^\]]+)\]\([\w./]+/glossary\.md(?:#([\w%-]+))?\)")
_SOURCE_LINK = re.compile(r"\[([^\]]+)\]\([\w./]+/references\.bib#([\w-]+)\)")


@dataclass(frozen=True)
class Page:
    """A page of the book.

    Attributes
    ----------
    name
        The name of the file, without its ending.
    title
        The title in the table of contents; empty if the page's own heading serves.
    text
        A notebook in JSON, or Markdown.
    """

    chapter: str
    name: str
    title: str
    suffix: str
    text: str


def read_pages(pages: Sequence[tuple[str, Path]]) -> list[Page]:
    """Read all pages, and convert the links between them.

    A page of an experiment without any figure or table is left out; the page before names it.

    Parameters
    ----------
    pages
        Chapter and file of each page, in the order of the book.
    """
    if not any(path.stem == FRONT_STEM for _, path in pages):
        raise UserError("book", "no front page", f"an executed notebook {FRONT_STEM}.ipynb")
    files = {
        path.stem: f"{page_name(path.stem)}{path.suffix}"
        for _, path in pages
        if path.suffix != ".ipynb" or not _is_empty(path)
    }
    read: list[Page] = []
    for chapter, path in pages:
        page = _read_page(chapter, path, files)
        if path.stem in files:
            read.append(page)
        else:
            read[-1] = _with_note(read[-1], f"*Left out: {chapter}, {page.title}. No data.*")
    return read


def _is_empty(path: Path) -> bool:
    """Whether a page of an experiment, which has a title, shows neither a figure nor a table."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return False  # `_read_page` refuses it
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    if not any("title" in output.get("metadata", {}).get("horizont", {}) for output in outputs):
        return False
    parts = [part for output in outputs for part in _parts(output.get("data", {}))]
    return not any({FIGURE_MIME, TABLE_MIME} & part.keys() for part in parts)


def _with_note(page: Page, note: str) -> Page:
    """Append a line to a page."""
    if page.suffix != ".ipynb":
        return replace(page, text=f"{page.text}\n\n{note}\n")
    notebook = json.loads(page.text)
    cell = {"cell_type": "markdown", "metadata": {}, "id": f"note-{len(notebook['cells'])}"}
    notebook["cells"].append(cell | {"source": note})
    return replace(page, text=json.dumps(notebook, ensure_ascii=False))


def page_name(stem: str) -> str:
    """Return the name of the page that is made from a file."""
    return "index" if stem == FRONT_STEM else stem


def _read_page(chapter: str, path: Path, files: Mapping[str, str]) -> Page:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("book", str(path), "an executed notebook or a document") from None
    title = ""
    if path.suffix == ".ipynb":
        try:
            cells = json.loads(text)["cells"]
        except (ValueError, KeyError):
            raise UserError(str(path), "damaged", "an executed notebook") from None
        title, cells = _readable_cells(cells, path, chapter, files)
        notebook = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
        text = json.dumps(notebook, ensure_ascii=False)
    else:
        text = _with_links(text, files)
    return Page(chapter, page_name(path.stem), title, path.suffix, text)


def _readable_cells(
    cells: list[dict[str, Any]], path: Path, heading: str, files: Mapping[str, str]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the page's own title, and the cells that readers see."""
    title, subtitle, shown = "", "", []
    for cell in cells:
        metadata = _output_metadata(cell, path)
        if "title" in metadata:
            title, subtitle = metadata["title"], metadata["facts"]
        elif _is_shown(cell):
            shown.append(_readable_cell(cell, files))
    if title:
        rest = re.sub(r"\A# .*\n?", "", shown[0]["source"]).strip()
        line = f"*{subtitle[0].upper()}{subtitle[1:]}.*\n\n" if subtitle else ""
        shown[0]["source"] = f"# {heading}: {title}\n\n{line}{rest}"
    return title, shown


def _is_shown(cell: Mapping[str, Any]) -> bool:
    """Whether readers see a cell; folded code without an output would be a line without a use."""
    tags = set(cell["metadata"].get("tags", []))
    return not tags & _HIDDEN_TAGS and ("hide-input" not in tags or bool(cell.get("outputs")))


def _output_metadata(cell: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return what the outputs of a cell declare; refuse a cell that failed."""
    found: dict[str, Any] = {}
    for output in cell.get("outputs", []):
        if output["output_type"] == "error":
            error = f"{output['ename']}: {output['evalue']}"
            raise UserError(str(path), error, "a notebook that ran to its end")
        found |= output.get("metadata", {}).get("horizont", {})
    return found


def _readable_cell(cell: dict[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    cell = {**cell, "source": "".join(cell["source"])}
    if cell["cell_type"] == "markdown":
        return {**cell, "source": _with_links(_with_roles(cell["source"]), files)}
    outputs = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if not data:
            outputs.append(output)
        elif not any("widget" in mime for mime in data):
            outputs += [{**output, "data": _book_data(part, files)} for part in _parts(data)]
    return {**cell, "outputs": outputs, "execution_count": None}


def _parts(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the outputs of a stack, each with its HTML; of another output itself."""
    if STACK_MIME not in data:
        return [data]
    texts = "".join(data["text/html"]).split(STACK_SEPARATOR)
    # In notebooks of earlier versions each part has its HTML, and nothing separates the parts.
    texts += [""] * (len(data[STACK_MIME]) - len(texts))
    pairs = zip(texts, data[STACK_MIME], strict=False)
    return [{"text/html": text, **part} for text, part in pairs]


def _book_data(data: dict[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """Return the one representation that the book uses, with its links."""
    text = "".join(data.get("text/html", ""))
    if FIGURE_MIME in data:
        csv = _CSV.search(text)
        drawn = {"svg": _found(_SVG, text), "csv": unquote(csv[1]) if csv else ""}
        return {FIGURE_MIME: {**drawn, **data[FIGURE_MIME]}}
    if TABLE_MIME in data:
        return {TABLE_MIME: {"html": _found(_TABLE, text), **data[TABLE_MIME]}}
    if "text/markdown" in data:
        return {"text/markdown": _with_links("".join(data["text/markdown"]), files)}
    return data


def _with_roles(text: str) -> str:
    """Replace links to the glossary and to the references by roles of Sphinx.

    ``[(Polyak, 1964)](...)``, with brackets, is a citation in brackets.
    """

    def term(found: re.Match[str]) -> str:
        words = " ".join(found[1].split())
        return f"{{term}}`{words} <{unquote(found[2] or words.lower())}>`"

    def source(found: re.Match[str]) -> str:
        return f"{{cite:{'p' if found[1].startswith('(') else 't'}}}`{found[2]}`"

    return _SOURCE_LINK.sub(source, _TERM_LINK.sub(term, text))


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[0] if match else ""


def _with_links(text: str, files: Mapping[str, str]) -> str:
    """Replace links to files by links to pages; without such a page, by their text."""

    def link(found: re.Match[str]) -> str:
        words, name, anchor = found.groups()
        return f"[{words}]({files[name]}{anchor or ''})" if name in files else words

    return _PAGE_LINK.sub(link, text)
