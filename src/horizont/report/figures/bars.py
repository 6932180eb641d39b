"""Stacked bars: one part after the other, each in its look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from horizont.report.style import PAPER, PART_COLOURS, PART_HATCHES


class Look(NamedTuple):
    """How a part is filled."""

    colour: str
    hatch: str | None = None


def part_look(part: str) -> Look:
    """Tell the look of a part of a step."""
    return Look(PART_COLOURS[part], PART_HATCHES.get(part))


def stack(axes: Axes, row: float, pieces: Iterable[tuple[float, Look]], height: float) -> float:
    """Draw the pieces of a bar from left to right.

    Parameters
    ----------
    row, height
        Of the bar's middle, and of the bar, in rows.
    pieces
        Widths, in the unit of the axis, with their looks. What has no width is left out.

    Returns
    -------
    float
        Where the bar ends.
    """
    left = 0.0
    for width, look in pieces:
        if not width > 0:  # false for NaN
            continue
        axes.barh(
            row,
            width,
            left=left,
            height=height,
            color=look.colour,
            hatch=look.hatch,
            edgecolor=PAPER,
            linewidth=0.8,
        )
        left += width
    return left


def swatch(look: Look, label: str) -> Patch:
    """Show a look in a legend."""
    return Patch(facecolor=look.colour, hatch=look.hatch, edgecolor=PAPER, label=label)
