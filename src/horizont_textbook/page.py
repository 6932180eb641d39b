"""What the pages of all chapters share: figures with captions, and links to measured pages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

import matplotlib as mpl
import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.config.study import read_study
from horizont.reporting.labels import dataset_label, workload_label
from horizont.reporting.output import FigureOutput, Prose, TableOutput
from horizont.reporting.style import PAIR_COLOURS, book_style, grid_axis, new_figure
from horizont.reporting.tables import text_table
from horizont.workflow.paths import study_paths
from horizont_textbook import Array

P = ParamSpec("P")

#: The data of a figure, alone or with values for the fields of its caption.
Plotted = pd.DataFrame | tuple[pd.DataFrame, dict[str, Any]]

#: Colour and dash of the lines of a figure, in the order in which they are plotted.
LINE_CYCLE = cycler(color=PAIR_COLOURS[:4], linestyle=("-", "--", "-.", ":"))


def figure(
    name: str, height: float, *, legend: int = 0, grid: str = ""
) -> Callable[[Callable[Concatenate[Figure, P], Plotted]], Callable[P, FigureOutput]]:
    """Convert a function that plots on a figure to one that returns the figure with its caption.

    The docstring is the caption; arguments and returned values replace its fields in braces.

    Parameters
    ----------
    name
        Unique on its page; becomes the address of the figure.
    height
        In inches.
    legend
        Columns of the legend of all panels, below them; 0 for none.
    grid
        The axis of all panels whose grid lines alone are shown, without a frame: `x` or `y`.
    """

    def decorate(plot: Callable[Concatenate[Figure, P], Plotted]) -> Callable[P, FigureOutput]:
        signature = inspect.signature(plot)
        caption = " ".join((plot.__doc__ or "").split())

        @functools.wraps(plot)
        def plotted(*args: P.args, **kwargs: P.kwargs) -> FigureOutput:
            with book_style(), mpl.rc_context({"axes.prop_cycle": LINE_CYCLE}):
                panel = new_figure(height)
                result = plot(panel, *args, **kwargs)
                if legend:
                    panel.legend(loc="outside lower center", ncols=legend)
                for axes in panel.axes if grid else ():
                    grid_axis(axes, grid)
            data, values = result if isinstance(result, tuple) else (result, {})
            arguments = signature.bind(panel, *args, **kwargs)
            arguments.apply_defaults()
            text = caption.format(**arguments.arguments | values)
            return FigureOutput(panel, name, text, data)

        del plotted.__wrapped__  # its signature includes the figure
        return plotted

    return decorate


def columns(**values: Any) -> pd.DataFrame:
    """Build a data frame of columns that may differ in length."""
    return pd.DataFrame({name: pd.Series(column) for name, column in values.items()})


def power_axis(axes: Axes, ticks: Sequence[float]) -> None:
    """Scale the x axis by powers of two, with labelled ticks."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    grid_axis(axes, "y")


def table(rows: pd.DataFrame | Sequence[dict[str, str]], text: Sequence[str] = ()) -> TableOutput:
    """Build a table of formatted cells; its columns are numbers but for the first and `text`."""
    frame = pd.DataFrame(rows)
    numbers = [name for name in frame.columns[1:] if name not in text]
    return text_table(frame, numbers, measured=False)


def relative_distance(values: Array, expected: Array) -> float:
    """Return the norm of the difference over the norm of the expected values."""
    return float(np.linalg.norm(values - expected) / (np.linalg.norm(expected) or 1.0))


def format_distance(distance: float | None) -> str:
    """Format a relative distance: one digit, a dash where it is unknown."""
    if distance is None:
        return "–"
    return f"{distance:.0e}" if distance else "0"


def related_pages(*chapters: str) -> Prose:
    """Return links to the measured pages of some chapters, as far as the study has them.

    Chapters are `data`, `equivalence`, and experiments.
    """
    study = read_study(study_paths().params)
    measured = {
        n: (study.experiment_title(n), study.experiment(n).workloads) for n in study.experiments
    }
    measured["equivalence"] = ("Equivalence", study.equivalence.workloads)
    links = []
    for chapter in chapters:
        if chapter == "data":
            links += [f"- [The data: {dataset_label(n)}](data-{n}.ipynb)" for n in study.datasets]
        title, workloads = measured.get(chapter, ("", ()))
        for name in workloads:
            workload = study.workload(name)
            text = f"{title}: {workload_label(workload.network, workload.dataset)}"
            links.append(f"- [{text}]({chapter}-{name}.ipynb)")
    return Prose("\n".join(links) or "This study does not measure it; another profile does.")
