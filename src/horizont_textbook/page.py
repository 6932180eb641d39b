"""What the pages of all chapters share: the frame of a figure, and links to measured pages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import pandas as pd
from matplotlib.figure import Figure

from horizont.config.study import Study, read_study
from horizont.reporting.labels import dataset_label, workload_label
from horizont.reporting.output import FigureOutput, RelatedPages
from horizont.reporting.style import FIGURE_WIDTH, book_style, new_figure
from horizont.workflow.paths import Paths, study_paths

P = ParamSpec("P")

#: A function that plots on a figure and returns the caption and the data of the figure.
Plot = Callable[Concatenate[Figure, P], tuple[str, pd.DataFrame]]


def book_figure(
    name: str, height: float, width: float = FIGURE_WIDTH
) -> Callable[[Plot[P]], Callable[P, FigureOutput]]:
    """Convert a function that plots on a figure to one that returns the figure with its caption.

    Parameters
    ----------
    name
        Unique on its page; becomes the address of the figure.
    height, width
        In inches.
    """

    def decorate(plot: Plot[P]) -> Callable[P, FigureOutput]:
        @functools.wraps(plot)
        def plotted(*args: P.args, **kwargs: P.kwargs) -> FigureOutput:
            with book_style():
                figure = new_figure(height, width)
                caption, data = plot(figure, *args, **kwargs)
            return FigureOutput(figure, name, caption, data)

        del plotted.__wrapped__  # its signature includes the figure
        return plotted

    return decorate


def columns(**values: Any) -> pd.DataFrame:
    """Build a data frame of columns that may differ in length."""
    return pd.DataFrame({name: pd.Series(column) for name, column in values.items()})


def format_distance(distance: float | None) -> str:
    """Format a relative distance: one digit, a dash where it is unknown."""
    if distance is None:
        return "–"
    return f"{distance:.0e}" if distance else "0"


def related_pages(*chapters: str, paths: Paths | None = None) -> RelatedPages:
    """Return links to the measured pages of some chapters, as far as the study has them.

    Parameters
    ----------
    chapters
        `data`, `equivalence`, or experiments.
    """
    study = read_study((paths or study_paths()).params)
    return RelatedPages(tuple(page for chapter in chapters for page in _pages(study, chapter)))


def _pages(study: Study, chapter: str) -> list[tuple[str, str]]:
    """List text and notebook of a chapter's pages."""
    if chapter == "data":
        return [(f"The data: {dataset_label(n)}", f"data-{n}") for n in study.datasets]
    if chapter == "equivalence":
        title, names = "Equivalence", study.equivalence.workloads
    elif chapter in study.experiments:
        title, names = study.experiment_title(chapter), study.experiment(chapter).workloads
    else:
        return []
    workloads = {name: study.workload(name) for name in names}
    return [
        (f"{title}: {workload_label(each.network, each.dataset)}", f"{chapter}-{name}")
        for name, each in workloads.items()
    ]
