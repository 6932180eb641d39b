"""What marks and lines stand for, written above a figure."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from horizont.report import words
from horizont.report.style import FRAMEWORK_MARKS, Dash, system_colour, system_dash


def put_above(figure: Figure, handles: Sequence[Artist], columns: int, **spacing: float) -> None:
    """Write a legend above all panels of a figure."""
    figure.legend(handles=list(handles), loc="outside upper left", ncols=columns, **spacing)


def system_line(system: str, marked: bool, dash: Dash | None = None, note: str = "") -> Line2D:
    """Show the line of a system.

    Parameters
    ----------
    marked
        Whether its points carry the mark of the framework.
    dash
        The kind of line, if it is not the system's own.
    note
        What follows its name.
    """
    mark = FRAMEWORK_MARKS.get(words.framework_of(system), "o") if marked else None
    return Line2D(
        [],
        [],
        color=system_colour(system),
        linestyle=dash or system_dash(system),
        marker=mark,
        markersize=5,
        label=words.system(system) + note,
    )
