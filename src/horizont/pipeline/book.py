"""Assembling the book of the study at hand."""

from __future__ import annotations

from pathlib import Path

from horizont.errors import UserError
from horizont.pipeline.claims import check_claims
from horizont.pipeline.paths import Paths
from horizont.report.book import build_book
from horizont.report.linkcheck import Report, check_links
from horizont.spec import Study, read_study

#: Experiments whose runs have their resources charted.
SAMPLED = ("distributed", "cluster", "links", "scaling", "strong_scaling")

#: Experiments whose systems are set against each other.
JUDGED = ("local", "distributed", "cluster")

#: The experiment whose runs end with steps under the frameworks' profilers.
PROFILED = "local"

#: Documents that are chapters.
TEXTS = ("introduction", "method", "bibliography")

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
        than the verdicts, or an address in the site leads nowhere.
    """
    check_claims(paths)
    study = read_study(paths.params)
    front = build_book(pages(study, paths), paths.book, sources(study))
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


def sources(study: Study) -> dict[str, str]:
    """Tell where the numbers of each page come from, by the name of its notebook."""
    found = {}
    for experiment in study.experiments:
        for name in study.workloads_of(experiment):
            records = f"records/{experiment}/{name}"
            found[page_of(experiment, name)[1]] = records
            found[f"resources-{name}-{experiment}"] = records
            found[f"verdicts-{name}-{experiment}"] = records
            if experiment == PROFILED:
                found[f"operators-{name}"] = records
    for name in study.study:
        found[f"equivalence-{name}"] = f"reports/equivalence/{name}.json"
    return {**found, "claims": "reports/claims.json", "overview": "reports/metrics"}


def pages(study: Study, paths: Paths) -> list[tuple[str, Path]]:
    """List chapter and executed notebook, or document, of each page."""
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
    texts = [(name, paths.docs / f"{name}.md") for name in TEXTS]
    return [*((chapter, paths.executed / f"{name}.ipynb") for chapter, name in planned), *texts]


def page_of(experiment: str, workload: str) -> tuple[str, str]:
    """Tell chapter and name of the page of an experiment on a workload."""
    if experiment in SHOWN_BY:
        chapter = SHOWN_BY[experiment]
        return chapter, f"{chapter}-{workload}-{experiment}"
    return experiment, f"{experiment}-{workload}"
