"""Assembling the book of the study at hand."""

from __future__ import annotations

from pathlib import Path

from horizont.pipeline.paths import Paths
from horizont.report.book import build_book
from horizont.spec import Study, read_study

#: Chapters that have a page for each workload, in the order of the book.
PER_WORKLOAD = ("equivalence", "local", "distributed", "resources")


def assemble_book(paths: Paths) -> Path:
    """Build the site from the executed notebooks of the planned pages, and no others.

    Returns
    -------
    Path
        The front page.

    Raises
    ------
    UserError
        If a page is missing or its notebook failed.
    """
    return build_book(list(pages(read_study(paths.params), paths)), paths.book)


def pages(study: Study, paths: Paths) -> list[tuple[str, Path]]:
    """List chapter and executed notebook of each page."""
    planned = [("overview", "overview")]
    planned += [("data", f"data-{name}") for name in study.datasets]
    planned += [(chapter, f"{chapter}-{name}") for chapter in PER_WORKLOAD for name in study.study]
    return [(chapter, paths.executed / f"{name}.ipynb") for chapter, name in planned]
