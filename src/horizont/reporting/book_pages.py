"""The pages of the book: executed notebooks and documents, as Sphinx is to read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from horizont.errors import Problem, UserError
from horizont.reporting.labels import capitalise
from horizont.reporting.output import FIGURE_MIME, STACK_MIME, STACK_SEPARATOR, TABLE_MIME

#: The stem of the file that becomes the front page.
FRONT_STEM = "overview"

#: How the titles of chapters begin that report packed records.
REFERENCE = "Reference: "

#: Cells with these tags set parameters, or are not for readers.
_HIDDEN_TAGS = frozenset({"parameters", "injected-parameters", "remove-cell"})

#: How Sphinx is to colour the code.
_METADATA = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}

#: What the book takes from the HTML of a figure or a table.
_SVG = re.compile(r"<svg.*</svg>", re.DOTALL)
_CSV = re.compile(r'(?<=href="data:text/csv;charset=utf-8,)[^"]*')
_TABLE = re.compile(r"<table.*</table>", re.DOTALL)

#: A link to a page, to the glossary or to a source of the bibliography.
_LINK = re.compile(r"\[([^\]]+)\]\(([\w./]*/)?([\w-]+)\.(?:ipynb|md|bib)(?:#([\w%-]+))?\)")


Cell = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """A page of the book: the cells of a notebook, or a Markdown document as one cell."""

    chapter: str
    name: str  # of the file, without its ending
    title: str  # in the table of contents; empty if the page's own heading serves
    suffix: str
    cells: list[Cell]

    @property
    def text(self) -> str:
        """The file: a notebook in JSON, or Markdown."""
        if self.suffix != ".ipynb":
            return "\n\n".join(cell["source"] for cell in self.cells) + "\n"
        notebook = {"cells": self.cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, ensure_ascii=False)

    def append(self, text: str) -> None:
        """Append Markdown."""
        self.cells.append(_markdown_cell(text, f"appended-{len(self.cells)}"))


def _markdown_cell(text: str, identifier: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "id": identifier, "source": text}


def read_pages(pages: Sequence[tuple[str, Path]]) -> list[Page]:
    """Read chapter and file of each page, and convert the links between them.

    A page of an experiment without any figure or table is left out; the page before names it.
    """
    if not any(path.stem == FRONT_STEM for _, path in pages):
        raise UserError(
            "book", Problem("no front page"), f"an executed notebook {FRONT_STEM}.ipynb"
        )
    contents = [(chapter, path, _read_cells(path)) for chapter, path in pages]
    files = {
        path.stem: f"{page_name(path.stem)}{path.suffix}"
        for _, path, cells in contents
        if not _is_empty(cells)
    }
    read: list[Page] = []
    for chapter, path, cells in contents:
        title, shown = _readable_cells(cells, chapter, files)
        if path.stem in files:
            read.append(Page(chapter, page_name(path.stem), title, path.suffix, shown))
        else:
            read[-1].append(f"*Left out: {chapter}, {title}. No data.*")
    return read


def page_name(stem: str) -> str:
    """Return the name of the page that is made from a file."""
    return "index" if stem == FRONT_STEM else stem


def _read_cells(path: Path) -> list[Cell]:
    """Read a document, or a notebook, none of whose cells has failed."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".ipynb":
            return [_markdown_cell(text, "document")]
        cells: list[Cell] = json.loads(text)["cells"]
    except FileNotFoundError:
        raise UserError("book", str(path), "an executed notebook or a document") from None
    except (ValueError, KeyError):
        raise UserError(str(path), Problem("damaged"), "an executed notebook") from None
    for output in _outputs(cells):
        if output["output_type"] == "error":
            error = f"{output['ename']}: {output['evalue']}"
            raise UserError(str(path), Problem(error), "a notebook that ran to its end")
    return cells


def _outputs(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    return [output for cell in cells for output in cell.get("outputs", [])]


def _title(cells: Iterable[Cell]) -> Mapping[str, str]:
    """Return what an output declares on the page of an experiment: title, facts and finding."""
    declared = (output.get("metadata", {}).get("horizont", {}) for output in _outputs(cells))
    return next((metadata for metadata in declared if "title" in metadata), {})


def _is_empty(cells: Iterable[Cell]) -> bool:
    """Whether the page of an experiment shows neither a figure nor a table."""
    parts = [part for output in _outputs(cells) for part in _parts(output.get("data", {}))]
    return bool(_title(cells)) and not any(
        {FIGURE_MIME, TABLE_MIME} & part.keys() for part in parts
    )


def _readable_cells(
    cells: Sequence[Cell], heading: str, files: Mapping[str, str]
) -> tuple[str, list[Cell]]:
    """Return the page's own title, and the cells that readers see."""
    shown = [_readable_cell(cell, files) for cell in cells if _is_shown(cell)]
    declared = _title(cells)
    if not declared:
        return "", shown
    title, facts, finding = (declared.get(name, "") for name in ("title", "facts", "finding"))
    own = re.match(r"# (.*)\n?", shown[0]["source"])
    rest = shown[0]["source"][own.end() if own else 0 :].strip()
    # In the chapter of an experiment, a view is called by its name and not by the experiment's.
    experiment = f"{heading.removeprefix(REFERENCE)}, "
    if own and title.startswith(experiment):
        title = f"{own[1]}, {title.removeprefix(experiment)}"
    found = f"**{finding}**\n\n" if finding else ""
    line = f"*{capitalise(facts)}.*\n\n" if facts else ""
    shown[0]["source"] = f"# {heading}: {title}\n\n{found}{line}{rest}"
    return title, shown


def _is_shown(cell: Cell) -> bool:
    """Whether readers see a cell; folded code without an output would be a line without a use."""
    tags = set(cell["metadata"].get("tags", []))
    if tags & _HIDDEN_TAGS or _title([cell]):
        return False
    return "hide-input" not in tags or bool(cell.get("outputs"))


def _readable_cell(cell: Cell, files: Mapping[str, str]) -> Cell:
    cell = {**cell, "source": "".join(cell["source"])}
    if cell["cell_type"] == "markdown":
        return {**cell, "source": _with_links(cell["source"], files)}
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
        drawn = {"svg": _found(_SVG, text), "csv": unquote(_found(_CSV, text))}
        return {FIGURE_MIME: {**drawn, **data[FIGURE_MIME]}}
    if TABLE_MIME in data:
        return {TABLE_MIME: {"html": _found(_TABLE, text), **data[TABLE_MIME]}}
    if "text/markdown" in data:
        return {"text/markdown": _with_links("".join(data["text/markdown"]), files)}
    return data


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[0] if match else ""


def _with_links(text: str, files: Mapping[str, str]) -> str:
    """Replace links to files by links to pages; without such a page, by their text.

    Links to a term of the glossary and to a source become roles of Sphinx, which JupyterLab would
    show as source. A term that is not the text is the anchor; ``[(Polyak, 1964)](...)``, with
    brackets, is a citation in brackets.
    """

    def link(found: re.Match[str]) -> str:
        words, folder, name, anchor = found.groups()
        if name == "references" and anchor:
            return f"{{cite:{'p' if words.startswith('(') else 't'}}}`{anchor}`"
        if name == "glossary" and folder:
            words = " ".join(words.split())
            return f"{{term}}`{words} <{unquote(anchor or words.lower())}>`"
        if name in files:
            return f"[{words}]({files[name]}{f'#{anchor}' if anchor else ''})"
        return words

    return _LINK.sub(link, text)
