"""From the step of one system to that of another: what is added and taken away on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.report import words
from horizont.report.style import (
    FAINT,
    INK,
    PAPER,
    PART_COLOURS,
    PART_HATCHES,
    UNKNOWN_COLOUR,
    drawing,
    new_figure,
    only_grid,
    system_colour,
)

#: Height of a row in inches.
_ROW = 0.36
_BAR = 0.62


@dataclass(frozen=True)
class Stride:
    """What a part adds to a step.

    Attributes
    ----------
    part
        As the drill-down names it, such as ``communication + update``.
    added_s, low_s, high_s
        Seconds, negative if it takes away, with the interval; NaN without one.
    share
        Of the whole difference.
    named
        Whether it stands out.
    colour_of
        The phase whose colour it has.
    """

    part: str
    added_s: float
    low_s: float
    high_s: float
    share: float
    named: bool
    colour_of: str


@dataclass(frozen=True)
class Fall:
    """A waterfall: from one time to another by strides that add up.

    Attributes
    ----------
    title
        What is taken apart, such as ``one step of a worker``.
    """

    title: str
    start_s: float
    end_s: float
    strides: Sequence[Stride]


def waterfall(faster: str, slower: str, falls: Sequence[Fall]) -> Figure:
    """Draw how the time of the faster system becomes that of the slower one.

    Parameters
    ----------
    faster, slower
        The names of the systems.
    falls
        One below the other: the step, then what was found inside of a part of it.
    """
    rows = [len(fall.strides) + 2 for fall in falls]
    heights = [_ROW * count + 0.55 for count in rows]
    with drawing():
        figure = new_figure(sum(heights) + 0.25)
        panels = figure.subplots(len(falls), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, fall in zip(panels, falls, strict=True):
            _draw(axes, faster, slower, fall)
        panels[-1].set_xlabel("milliseconds")
    return figure


def _draw(axes: Axes, faster: str, slower: str, fall: Fall) -> None:
    only_grid(axes, "x")
    axes.set_title(fall.title, pad=6)
    last = len(fall.strides) + 1
    _whole(axes, 0, fall.start_s, faster)
    _whole(axes, last, fall.end_s, slower)
    reached = fall.start_s
    for row, stride in enumerate(fall.strides, start=1):
        _stride(axes, row, reached, stride)
        reached += stride.added_s
        axes.plot([reached * 1e3] * 2, [row, row + 1], color=FAINT, linewidth=0.8, linestyle=":")
    _names(axes, faster, slower, fall)
    axes.set_xlim(min(0.0, _least(fall)), _most(fall) * 1.27)
    axes.set_ylim(last + 0.6, -0.6)


def _names(axes: Axes, faster: str, slower: str, fall: Fall) -> None:
    labels = [_short(faster), *(_part(stride.part) for stride in fall.strides), _short(slower)]
    axes.set_yticks(range(len(labels)), labels=labels)
    axes.tick_params(axis="y", length=0, pad=6)
    shown = axes.get_yticklabels()
    for label, stride in zip(shown[1:-1], fall.strides, strict=True):
        label.set_fontweight("bold" if stride.named else "normal")


def _short(system: str) -> str:
    """Name a system on two lines."""
    return f"{words.framework(words.framework_of(system))}\n{words.mode(system)}"


def _part(part: str) -> str:
    """Name a part; of several phases on lines of its own where it would be too long."""
    return part.replace(" + ", " +\n", 1) if len(part) > 20 else part


def _whole(axes: Axes, row: int, spent_s: float, system: str) -> None:
    colour = system_colour(system)
    axes.barh(row, spent_s * 1e3, height=_BAR, color=colour, edgecolor=PAPER, linewidth=0.8)
    _write(axes, row, spent_s * 1e3, f"{spent_s * 1e3:.2f}")


def _stride(axes: Axes, row: int, from_s: float, stride: Stride) -> None:
    axes.barh(
        row,
        stride.added_s * 1e3,
        left=from_s * 1e3,
        height=_BAR,
        color=PART_COLOURS.get(stride.colour_of, UNKNOWN_COLOUR),
        hatch=PART_HATCHES.get(stride.colour_of),
        edgecolor=PAPER,
        linewidth=0.8,
    )
    ends = [from_s, from_s + stride.added_s]
    if not math.isnan(stride.low_s):
        between = [(from_s + stride.low_s) * 1e3, (from_s + stride.high_s) * 1e3]
        axes.plot(between, [row, row], color=INK, linewidth=1.2, solid_capstyle="butt")
        ends += [from_s + stride.high_s]
    share = "" if math.isnan(stride.share) else f" ({stride.share:.0%})".replace("-", "−")
    text = f"{stride.added_s * 1e3:+.2f}{share}".replace("-", "−")
    _write(axes, row, max(ends) * 1e3, text, bold=stride.named)


def _write(axes: Axes, row: int, right: float, text: str, *, bold: bool = False) -> None:
    axes.annotate(
        text,
        (right, row),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        fontweight="bold" if bold else "normal",
    )


def _reached(fall: Fall) -> list[float]:
    """List all the times that a mark of the figure stands at, in milliseconds."""
    found, reached = [fall.start_s, fall.end_s], fall.start_s
    for stride in fall.strides:
        ends = (stride.added_s, stride.low_s, stride.high_s)
        found += [reached + each for each in ends if not math.isnan(each)]
        reached += stride.added_s
    return [each * 1e3 for each in found]


def _least(fall: Fall) -> float:
    return min(_reached(fall))


def _most(fall: Fall) -> float:
    return max(_reached(fall))
