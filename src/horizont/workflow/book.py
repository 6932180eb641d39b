"""Assembling the book of the study at hand."""

from __future__ import annotations

from pathlib import Path

from horizont.config.study import Study, read_study
from horizont.errors import UserError
from horizont.reporting.book import build_book
from horizont.reporting.linkcheck import Report, check_links
from horizont.workflow.paths import Paths
from horizont.workflow.results import check_claims

#: Experiments whose runs have their resources charted.
RESOURCE_EXPERIMENTS = ("distributed", "cluster", "links", "scaling", "strong_scaling")

#: Experiments whose systems are set against each other.
VERDICT_EXPERIMENTS = ("local", "distributed", "cluster")

#: The experiment whose runs end with steps under the frameworks' profilers.
PROFILED_EXPERIMENT = "local"

#: Documents that are chapters.
DOCUMENTS = ("introduction", "method", "bibliography")

#: Experiments that are shown by the notebook of another one.
NOTEBOOK_OF_EXPERIMENT = {"strong_scaling": "scaling"}


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
        than the verdicts, or an address in the site leads nowhere.
    """
    check_claims(paths)
    study = read_study(paths.params)
    front = build_book(planned_pages(study, paths), paths.book, page_sources(study))
    check_site(paths)
    return front


def check_site(paths: Paths) -> Report:
    """Follow all addresses of the built site.

    Raises
    ------
    UserError
        With the first that leads nowhere, or loads something from elsewhere.
    """
    if not (paths.book / "index.html").exists():
        raise UserError("book", str(paths.book), "a site that `horizont book` built")
    report = check_links(paths.book)
    if report.faults:
        more = f" (and {len(report.faults) - 1} more)" if len(report.faults) > 1 else ""
        raise UserError(str(paths.book), report.faults[0] + more, "addresses that lead somewhere")
    return report


def page_sources(study: Study) -> dict[str, str]:
    """Tell where the numbers of each page come from, by the name of its notebook."""
    found = {}
    for experiment in study.experiments:
        for name in study.workloads_of(experiment):
            records = f"records/{experiment}/{name}"
            found[page_of(experiment, name)[1]] = records
            found[f"resources-{name}-{experiment}"] = records
            found[f"verdicts-{name}-{experiment}"] = records
            if experiment == PROFILED_EXPERIMENT:
                found[f"operators-{name}"] = records
    for name in study.study:
        found[f"equivalence-{name}"] = f"reports/equivalence/{name}.json"
    return {**found, "claims": "reports/claims.json", "overview": "reports/metrics"}


def planned_pages(study: Study, paths: Paths) -> list[tuple[str, Path]]:
    """List chapter and executed notebook, or document, of each page."""
    planned = [("overview", "overview")]
    planned += [("chapters", name) for name in study.chapters]
    planned += [("data", f"data-{name}") for name in study.datasets]
    planned += [("equivalence", f"equivalence-{name}") for name in study.study]
    for experiment in study.experiments:
        names = study.workloads_of(experiment)
        planned += [page_of(experiment, name) for name in names]
        if experiment == PROFILED_EXPERIMENT:
            planned += [("operators", f"operators-{name}") for name in names]
    for experiment in RESOURCE_EXPERIMENTS:
        names = study.workloads_of(experiment)
        planned += [("resources", f"resources-{name}-{experiment}") for name in names]
    for experiment in VERDICT_EXPERIMENTS:
        names = study.workloads_of(experiment)
        planned += [("verdicts", f"verdicts-{name}-{experiment}") for name in names]
    planned += [("decision", "decision")]
    planned += [("claims", "claims"), ("frameworks", "frameworks")]
    texts = [(name, paths.docs / f"{name}.md") for name in DOCUMENTS]
    return [
        *((chapter, paths.executed_notebooks / f"{name}.ipynb") for chapter, name in planned),
        *texts,
    ]


def page_of(experiment: str, workload: str) -> tuple[str, str]:
    """Tell chapter and name of the page of an experiment on a workload."""
    if experiment in NOTEBOOK_OF_EXPERIMENT:
        chapter = NOTEBOOK_OF_EXPERIMENT[experiment]
        return chapter, f"{chapter}-{workload}-{experiment}"
    return experiment, f"{experiment}-{workload}"
