"""From an executed notebook to a page: a title of its own, numbered figures, no machinery."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from horizont.errors import UserError
from horizont.reporting import sheet
from horizont.reporting.citations import with_sources
from horizont.reporting.crossing import with_pages, without_absent
from horizont.reporting.glossary import PAGE as GLOSSARY
from horizont.reporting.glossary import with_terms

#: Cells with one of these tags tell how the page was made, not what was found.
_MACHINERY = frozenset({"parameters", "injected-parameters", "remove-cell"})

#: Cells with this tag are shown in the site and not on paper.
SITE_ONLY = "site-only"

#: The folder of the numbers behind the figures, below the site.
NUMBERS = "_data"


@dataclass(frozen=True)
class Page:
    """A page of the book in the making.

    Attributes
    ----------
    name
        The name of the page's file, without its ending.
    title
        For the table of contents; empty if the page's heading serves.
    files
        The numbers behind the figures: text of each file by its address below the site.
    """

    chapter: str
    name: str
    title: str
    cells: list[dict[str, Any]]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """The page's own heading, without marks."""
        found = re.match(r"# (.+)", "".join(self.cells[0]["source"])) if self.cells else None
        return found[1].strip() if found else self.title or self.name

    def link(self, pages: Mapping[str, str], sources: Collection[str]) -> None:
        """Let the page's links lead to the other pages, and to the sources that it names.

        Parameters
        ----------
        pages
            Page by the name of its notebook or document.
        sources
            The addresses of the bibliography.
        """
        names = set(pages.values())
        for cell in self.cells:
            if cell["cell_type"] == "markdown":
                text = with_terms(cell["source"]) if GLOSSARY in names else cell["source"]
                cell["source"] = with_sources(with_pages(text, pages), sources)
            for output in cell.get("outputs", []):
                if "text/html" in output.get("data", {}):
                    page = "".join(output["data"]["text/html"])
                    output["data"]["text/html"] = without_absent(page, names)

    def take_out_numbers(self) -> None:
        """Put the numbers behind the figures into files of their own."""
        for cell in self.cells:
            for output in cell.get("outputs", []):
                page = "".join(output.get("data", {}).get("text/html", ""))
                if sheet.KIND in page:
                    page, files = sheet.taken_out(page, NUMBERS, self.name)
                    output["data"]["text/html"] = page
                    self.files.update(files)

    def write(self, folder: Path, contents: str = "") -> None:
        """Write the page as a notebook that Sphinx reads, with the table of contents at its end."""
        cells = [*self.cells, *([_markdown(contents)] if contents else [])]
        notebook = {
            "cells": cells,
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "Python 3"},
                "language_info": {"name": "python", "pygments_lexer": "ipython3"},
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        for number, cell in enumerate(cells):
            cell["id"] = f"cell-{number}"
        text = json.dumps(notebook, ensure_ascii=False)
        (folder / f"{self.name}.ipynb").write_text(text, encoding="utf-8")


def read_page(chapter: str, path: Path, heading: str = "", *, front: bool = False) -> Page:
    """Turn an executed notebook into a page.

    Parameters
    ----------
    heading
        The heading of the chapter; with what the page is about, it makes the page's title.
    front
        Whether it becomes the front page, ``index``.

    Raises
    ------
    UserError
        If the notebook is missing, damaged, or stopped at an error.
    """
    import nbformat  # takes seconds, and notebooks that only link to pages read none

    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise UserError("book", str(path), "an executed notebook") from None
    except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise UserError(str(path), str(error).splitlines()[0], "a whole notebook") from None
    cells = json.loads(json.dumps(notebook))["cells"]
    _refuse_failed(cells, path)
    kept = [cell for cell in cells if not _MACHINERY & set(cell["metadata"].get("tags", []))]
    pieces = [piece for cell in kept for piece in _pieces(cell)]
    title, cells = _titled(pieces, heading)
    return Page(chapter, "index" if front else path.stem, title, cells)


def read_text(chapter: str, path: Path) -> Page:
    """Turn a document in Markdown into a page.

    Raises
    ------
    UserError
        If it is missing.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("book", str(path), "a document") from None
    return Page(chapter, path.stem, "", [_markdown(text)])


def _refuse_failed(cells: list[dict[str, Any]], path: Path) -> None:
    for cell in cells:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                error = f"{output['ename']}: {output['evalue']}"
                raise UserError(str(path), error, "a notebook that ran to its end")


def _titled(cells: list[dict[str, Any]], heading: str) -> tuple[str, list[dict[str, Any]]]:
    """Put the title that one of the cells announced into the page's heading.

    The notebook's own title is the chapter's; its pages are told apart by what they are about.

    Returns
    -------
    tuple
        The short title for the contents, empty if no cell announced one, and the cells.
    """
    for place, cell in enumerate(cells):
        title = _announced(cell).get("title")
        if title:
            body = re.sub(r"\A# .*\n?", "", "".join(cells[0]["source"])).strip()
            facts = _announced(cell)["facts"]
            line = f"*{facts[0].upper()}{facts[1:]}.*\n\n" if facts else ""
            full = f"{heading}: {title}" if heading else title
            head = _markdown(f"# {full}\n\n{line}{body}")
            return title, [head, *cells[1:place], *cells[place + 1 :]]
    return "", cells


def _announced(cell: dict[str, Any]) -> dict[str, Any]:
    for output in cell.get("outputs", []):
        found = output.get("metadata", {}).get("horizont", {})
        if found:
            return dict(found)
    return {}


def _pieces(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a cell so that each of its figures stands alone and can be numbered.

    The code goes with the first piece only.
    """
    cell["metadata"] = {"tags": cell["metadata"].get("tags", [])}
    if cell["cell_type"] != "code":
        return [{**cell, "source": "".join(cell["source"])}]
    cell["execution_count"] = None
    cell["outputs"] = [output for output in cell["outputs"] if not _is_noise(output)]
    pieces: list[dict[str, Any]] = []
    for output in cell["outputs"] or [None]:
        piece = copy.deepcopy({**cell, "outputs": [output] if output else []})
        if pieces:
            kept = [tag for tag in piece["metadata"]["tags"] if tag == SITE_ONLY]
            piece["metadata"]["tags"] = ["remove-input", *kept]
        _caption(piece)
        pieces.append(piece)
    return pieces


def _is_noise(output: dict[str, Any]) -> bool:
    """Whether an output is a warning, or a widget that only a kernel can show."""
    if output["output_type"] == "stream":
        return bool(output["name"] == "stderr")
    return any("widget" in kind for kind in output.get("data", {}))


def _caption(piece: dict[str, Any]) -> None:
    """Set a figure apart, so that it can be numbered."""
    figure = _announced(piece).get("figure")
    if not figure:
        return
    piece["metadata"]["figure"] = {"name": figure["name"], "caption": figure["caption"]}
    for output in piece["outputs"]:
        output["data"] = {"text/html": "".join(output["data"]["text/html"])}
        output["output_type"] = "display_data"
        output.pop("execution_count", None)


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}
