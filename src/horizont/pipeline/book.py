"""Assembling the book of the study at hand."""

from __future__ import annotations

from pathlib import Path

from horizont.pipeline.paths import Paths
from horizont.report.book import build_book
from horizont.spec import Study, read_study

#: Experiments whose runs have their resources charted.
SAMPLED = ("distributed", "cluster")

#: Experiments that are shown by the notebook of another one.
SHOWN_BY = {"strong_scaling": "scaling"}


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
    planned += [("theory", name) for name in study.theory]
    planned += [("data", f"data-{name}") for name in study.datasets]
    planned += [("equivalence", f"equivalence-{name}") for name in study.study]
    for experiment in study.experiments:
        names = study.workloads_of(experiment)
        planned += [page_of(experiment, name) for name in names]
    for experiment in SAMPLED:
        names = study.workloads_of(experiment)
        planned += [("resources", f"resources-{name}-{experiment}") for name in names]
    return [(chapter, paths.executed / f"{name}.ipynb") for chapter, name in planned]


def page_of(experiment: str, workload: str) -> tuple[str, str]:
    """Tell chapter and name of the page of an experiment on a workload."""
    if experiment in SHOWN_BY:
        chapter = SHOWN_BY[experiment]
        return chapter, f"{chapter}-{workload}-{experiment}"
    return experiment, f"{experiment}-{workload}"
