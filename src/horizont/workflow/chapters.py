"""From a theory notebook to the chapters of the study that measure what it explains."""

from __future__ import annotations

from horizont.config.study import Study, read_study
from horizont.reporting import labels, page
from horizont.reporting.book import CHAPTERS
from horizont.reporting.page import RelatedPages
from horizont.workflow.book import page_of
from horizont.workflow.paths import Paths, study_paths


def measured_in(*chapters: str, paths: Paths | None = None) -> RelatedPages:
    """Link to the pages of some chapters, as far as the study has them.

    Parameters
    ----------
    chapters
        `data`, `equivalence`, or experiments.
    """
    study = read_study((paths or study_paths()).params)
    found = [pair for chapter in chapters for pair in _pages(study, chapter)]
    return page.page_links(found)


def _pages(study: Study, chapter: str) -> list[tuple[str, str]]:
    """List text and address of a chapter's pages."""
    if chapter == "data":
        return [(f"The data: {labels.dataset_label(n)}", f"data-{n}.html") for n in study.datasets]
    named = study.study if chapter == "equivalence" else study.workloads_of(chapter)
    pages = []
    for name in named:
        workload = study.workload(name)
        heading, page = page_of(chapter, name)
        text = f"{CHAPTERS[heading]}: {labels.workload_label(workload.network, workload.dataset)}"
        pages.append((text, f"{page}.html"))
    return pages
