"""The pages of the book, and its assembly from executed notebooks."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

from horizont.config.study import Study, read_study
from horizont.errors import UserError
from horizont.reporting.book import PDF_NAME, build_book, external_resources
from horizont.reporting.book_pages import REFERENCE
from horizont.workflow.crate import write_crate
from horizont.workflow.paths import Paths
from horizont.workflow.reference import open_pack, packed_experiments
from horizont.workflow.reported import open_reported_study
from horizont.workflow.results import check_claims


def assemble_book(paths: Paths) -> Path:
    """Build the book from the executed notebooks of the planned pages, and no others.

    Returns the front page. Refuses a page that is missing or whose notebook failed, a page of
    claims that disagrees with the verdicts, and anything that Sphinx warns of, such as a dead link.
    """
    check_claims(paths)
    study = read_study(paths.params)
    front = build_book(
        planned_pages(study, paths),
        paths.docs / "book",
        paths.book,
        page_sources(study, paths),
        _day_of_report(paths),
    )
    # Only the PDF is committed: the site is built from what is.
    (paths.book / PDF_NAME).replace(paths.reports / PDF_NAME)
    (paths.book / PDF_NAME).symlink_to(Path("..", PDF_NAME))
    write_crate(paths)
    return front


def _day_of_report(paths: Paths) -> date | None:
    """Return the day of the newest run of the report, so that a rebuilt PDF is the same file.

    The variable SOURCE_DATE_EPOCH of https://reproducible-builds.org has precedence.
    """
    starts = [record.start_time_s for record in open_reported_study(paths).records]
    chosen = os.environ.get("SOURCE_DATE_EPOCH", "")
    second = int(chosen) if chosen.isdecimal() else max(starts, default=None)
    return None if second is None else datetime.fromtimestamp(second, tz=UTC).date()


def check_book(paths: Paths) -> None:
    """Check that there is a book, and that it loads nothing from elsewhere."""
    if not (paths.book / "index.html").exists():
        raise UserError("book", str(paths.book), "a book that `horizont book` built")
    if external := external_resources(paths.book):
        raise UserError("book", external[0], "pages that load nothing from elsewhere")


def planned_pages(study: Study, paths: Paths) -> list[tuple[str, Path]]:
    """List chapter and file of each page, in the order of the book; the front page first."""
    executed, documents = paths.executed_notebooks, paths.docs / "book"
    return [
        ("Overview", executed / "overview.ipynb"),
        ("Introduction", documents / "introduction.md"),
        *(("Theory", executed / f"{chapter}.ipynb") for chapter in study.chapters),
        ("Theory", documents / "glossary.md"),
        ("The frameworks", executed / "frameworks.ipynb"),
        ("Method", paths.docs / "method.md"),
        ("Method", documents / "own-models.md"),
        *(("The data", executed / f"data-{name}.ipynb") for name in study.datasets),
        *(
            ("Equivalence", executed / f"equivalence-{name}.ipynb")
            for name in study.equivalence.workloads
        ),
        *_experiment_pages(study, paths, ""),
        *_experiment_pages(study, paths, "operators"),
        *_experiment_pages(study, paths, "verdicts"),
        ("Decision", executed / "decision.ipynb"),
        ("Published and measured", executed / "claims.ipynb"),
        *_experiment_pages(study, paths, "resources"),
        *_reference_pages(paths),
        ("Bibliography", documents / "bibliography.md"),
    ]


def _experiment_pages(study: Study, paths: Paths, view: str) -> list[tuple[str, Path]]:
    """List the pages of all experiments, or those of one of their views."""
    return [
        (view.capitalize() or study.experiment_title(name), paths.page(name, workload, view))
        for name, experiment in study.experiments.items()
        if view in ("", *experiment.views)
        for workload in experiment.workloads
    ]


def _reference_pages(paths: Paths) -> list[tuple[str, Path]]:
    """List the pages of the reference: certificates, a chapter per experiment, and *Your run*."""
    pages = []
    for name in packed_experiments(paths):
        _, study = open_pack(name, paths)
        experiment = study.experiment(name)
        pages += [
            (
                f"{REFERENCE}{study.experiment_title(name)}",
                paths.page(name, workload, view, reference=True),
            )
            for workload in experiment.workloads
            for view in ("", *experiment.views)
        ]
    if not pages:
        return []
    executed = paths.executed_notebooks
    first = (f"{REFERENCE}equivalence", executed / "certificates.ipynb")
    return [first, *pages, ("Your run", executed / "your-run.ipynb")]


def page_sources(study: Study, paths: Paths) -> dict[str, str]:
    """Return where the values of each page come from, by the name of its notebook."""
    sources = {"claims": "reports/claims.json", "overview": "records"}
    if reference := _reference_pages(paths):
        sources |= {path.stem: f"reports/reference/{path.parent.name}" for _, path in reference}
        sources["certificates"] = "reports/reference/equivalence"
        sources |= dict.fromkeys(("overview", "your-run"), "reports/reference and records")
    for name, experiment in study.experiments.items():
        for workload in experiment.workloads:
            for view in ("", *experiment.views):
                sources[paths.page(name, workload, view).stem] = f"records/{name}/{workload}"
    for name in study.equivalence.workloads:
        sources[f"equivalence-{name}"] = f"reports/equivalence/{name}.json"
    return sources
