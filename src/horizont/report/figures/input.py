"""Input pipelines: what they give alone, and how long a training waits for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from horizont.report import words
from horizont.report.figures.labels import say_why_empty, scale_log, sentence
from horizont.report.figures.legends import put_above
from horizont.report.style import (
    FAINT,
    FRAMEWORK_MARKS,
    INK,
    PAPER,
    PART_COLOURS,
    drawing,
    new_figure,
    only_grid,
    system_colour,
)

#: Height of a row in inches: an input has one line of text.
ROW = 0.27
_BAR = 0.62


def input_rows(table: pd.DataFrame) -> Figure:
    """Draw a row for each input under a heading for each system.

    Parameters
    ----------
    table
        As of `horizont.analysis.inputs`.
    """
    with drawing():
        if table.empty:
            return sentence("no run was made")
        places, headings = _places(table)
        rows = len(table) + len(headings)
        figure = new_figure(ROW * rows + 1.1)
        alone, trained = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1])
        _name_rows(alone, table, places, headings)
        for place, (_, row) in zip(places, table.iterrows(), strict=True):
            _draw_alone(alone, place, row)
            _draw_trained(trained, place, row)
        only_grid(alone, "x")
        only_grid(trained, "x")
        scale_log(alone, "x")
        alone.set_xlabel("pipeline alone, ms a batch")
        longest = (table["wait_s"] / table["wait_share"]).max() * 1e3
        trained.set_xlim(0, longest * 1.2 if longest > 0 else 1)
        trained.set_xlabel("instrumented step, ms")
        trained.tick_params(axis="y", labelleft=False)
        _legend(figure)
    return figure


def _places(table: pd.DataFrame) -> tuple[list[int], dict[int, str]]:
    """Count the rows from the top down, with a line free for the heading of each system."""
    places: list[int] = []
    headings: dict[int, str] = {}
    line, before = 0, None
    for system in table["system"]:
        if system != before:
            headings[line] = str(system)
            line, before = line + 1, system
        places.append(line)
        line += 1
    return places, headings


def _name_rows(
    axes: Axes, table: pd.DataFrame, places: list[int], headings: dict[int, str]
) -> None:
    marked = ["" if ordered else " *" for ordered in table["ordered"]]
    labels = [name + mark for name, mark in zip(table["input"], marked, strict=True)]
    axes.set_yticks(
        [*places, *headings],
        labels=[
            *labels,
            *(words.framework(words.framework_of(name)) for name in headings.values()),
        ],
    )
    axes.set_ylim(max(places) + 0.6, -0.7)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=8)
    for label in axes.get_yticklabels()[len(places) :]:
        label.set_fontweight("bold")


def _draw_alone(axes: Axes, place: int, row: pd.Series) -> None:
    first, later = row["first_epoch_s"] * 1e3, row["later_s"] * 1e3
    colour = system_colour(row["system"])
    mark = FRAMEWORK_MARKS.get(words.framework_of(row["system"]), "o")
    axes.plot([first, later], [place, place], color=colour, linewidth=1, alpha=0.5)
    axes.plot(first, place, mark, color=PAPER, markeredgecolor=colour, markersize=6)
    axes.plot(later, place, mark, color=colour, markersize=5)


def _draw_trained(axes: Axes, place: int, row: pd.Series) -> None:
    wait, share = row["wait_s"] * 1e3, row["wait_share"]
    if np.isnan(wait):
        say_why_empty(axes, place, str(row["reason"]))
        return
    step = wait / share if share else row["step_s"] * 1e3
    axes.barh(place, wait, height=_BAR, color=PART_COLOURS["load"], edgecolor=INK, linewidth=0.5)
    rest: dict[str, Any] = {"color": PART_COLOURS["other"], "alpha": 0.55, "edgecolor": PAPER}
    axes.barh(place, step - wait, left=wait, height=_BAR, **rest)
    axes.annotate(
        f"{share:.1%}",
        (step, place),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        color=FAINT,
    )


def _legend(figure: Figure) -> None:
    dots: dict[str, Any] = {"marker": "o", "linestyle": "", "markeredgecolor": INK}
    handles = [
        Line2D([], [], markerfacecolor=PAPER, label="first epoch", **dots),
        Line2D([], [], markerfacecolor=INK, label="later epochs", **dots),
        Patch(facecolor=PART_COLOURS["load"], edgecolor=INK, linewidth=0.5, label="waits"),
        Patch(facecolor=PART_COLOURS["other"], alpha=0.55, label="computes"),
    ]
    put_above(figure, handles, 4)
