"""From a theory notebook to the chapters of the study that measure what it explains."""

from __future__ import annotations

from horizont.pipeline.book import page_of
from horizont.pipeline.paths import Paths, study_paths
from horizont.report import links, words
from horizont.report.book import CHAPTERS
from horizont.report.links import Links
from horizont.spec import Study, read_study


def measured_in(*chapters: str, paths: Paths | None = None) -> Links:
    """Link to the pages of some chapters, as far as the study has them.

    Parameters
    ----------
    chapters
        `data`, `equivalence`, or experiments.
    """
    study = read_study((paths or study_paths()).params)
    found = [pair for chapter in chapters for pair in _pages(study, chapter)]
    return links.links(found)


def _pages(study: Study, chapter: str) -> list[tuple[str, str]]:
    """List text and address of a chapter's pages."""
    if chapter == "data":
        return [(f"The data: {words.dataset(n)}", f"data-{n}.html") for n in study.datasets]
    named = study.study if chapter == "equivalence" else study.workloads_of(chapter)
    pages = []
    for name in named:
        workload = study.workload(name)
        heading, page = page_of(chapter, name)
        text = f"{CHAPTERS[heading]}: {words.workload(workload.network, workload.dataset)}"
        pages.append((text, f"{page}.html"))
    return pages
