"""Assembling the book of the study at hand."""

from __future__ import annotations

from pathlib import Path

from horizont.pipeline.claims import check_claims
from horizont.pipeline.paths import Paths
from horizont.report.book import build_book
from horizont.spec import Study, read_study

#: Experiments whose runs have their resources charted.
SAMPLED = ("distributed", "cluster", "links", "scaling", "strong_scaling")

#: Experiments whose systems are set against each other.
JUDGED = ("local", "distributed", "cluster")

#: The experiment whose runs end with steps under the frameworks' profilers.
PROFILED = "local"

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
        If a page is missing or its notebook failed, or the page of claims says something else
        than the verdicts.
    """
    check_claims(paths)
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
        if experiment == PROFILED:
            planned += [("operators", f"operators-{name}") for name in names]
    for experiment in SAMPLED:
        names = study.workloads_of(experiment)
        planned += [("resources", f"resources-{name}-{experiment}") for name in names]
    for experiment in JUDGED:
        names = study.workloads_of(experiment)
        planned += [("verdicts", f"verdicts-{name}-{experiment}") for name in names]
    planned += [("decision", "decision")]
    planned += [("claims", "claims"), ("frameworks", "frameworks")]
    return [(chapter, paths.executed / f"{name}.ipynb") for chapter, name in planned]


def page_of(experiment: str, workload: str) -> tuple[str, str]:
    """Tell chapter and name of the page of an experiment on a workload."""
    if experiment in SHOWN_BY:
        chapter = SHOWN_BY[experiment]
        return chapter, f"{chapter}-{workload}-{experiment}"
    return experiment, f"{experiment}-{workload}"
