"""Assembling the book of the study at hand."""

from __future__ import annotations

from pathlib import Path

from horizont.pipeline.paths import Paths
from horizont.report.book import build_book
from horizont.spec import Study, read_study

#: Chapters that have a page for each workload of the study, beside those of the experiments.
PER_WORKLOAD = ("equivalence", "resources")


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
    on = dict.fromkeys(PER_WORKLOAD, study.study)
    on |= {experiment: study.workloads_of(experiment) for experiment in study.experiments}
    planned += [(chapter, f"{chapter}-{name}") for chapter, names in on.items() for name in names]
    return [(chapter, paths.executed / f"{name}.ipynb") for chapter, name in planned]
