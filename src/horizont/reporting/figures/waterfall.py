"""From the step of one system to that of another: what is added and taken away on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.reporting import labels
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    MUTED,
    PHASE_COLOURS,
    PHASE_HATCHES,
    UNKNOWN_COLOUR,
    book_style,
    grid_axis,
    new_figure,
    system_colour,
)

#: Height of a row in inches.
_ROW_HEIGHT = 0.36
_BAR_HEIGHT = 0.62


@dataclass(frozen=True)
class WaterfallStep:
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
    fraction: float
    is_dominant: bool
    colour_of: str


@dataclass(frozen=True)
class Waterfall:
    """A waterfall: from one time to another by strides that add up.

    Attributes
    ----------
    title
        What is taken apart, such as ``one step of a worker``.
    """

    title: str
    start_s: float
    end_s: float
    steps: Sequence[WaterfallStep]


def waterfall_chart(faster: str, slower: str, waterfalls: Sequence[Waterfall]) -> Figure:
    """Draw how the time of the faster system becomes that of the slower one.

    Parameters
    ----------
    faster, slower
        The names of the systems.
    falls
        One below the other: the step, then what was found inside of a part of it.
    """
    rows = [len(fall.steps) + 2 for fall in waterfalls]
    heights = [_ROW_HEIGHT * count + 0.55 for count in rows]
    with book_style():
        figure = new_figure(sum(heights) + 0.25)
        panels = figure.subplots(len(waterfalls), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, fall in zip(panels, waterfalls, strict=True):
            _plot_waterfall(axes, faster, slower, fall)
        panels[-1].set_xlabel("milliseconds")
    return figure


def _plot_waterfall(axes: Axes, faster: str, slower: str, waterfall: Waterfall) -> None:
    grid_axis(axes, "x")
    axes.set_title(waterfall.title, pad=6)
    last = len(waterfall.steps) + 1
    _plot_total(axes, 0, waterfall.start_s, faster)
    _plot_total(axes, last, waterfall.end_s, slower)
    reached = waterfall.start_s
    for row, stride in enumerate(waterfall.steps, start=1):
        _plot_step(axes, row, reached, stride)
        reached += stride.added_s
        axes.plot([reached * 1e3] * 2, [row, row + 1], color=MUTED, linewidth=0.8, linestyle=":")
    _label_waterfall_rows(axes, faster, slower, waterfall)
    axes.set_xlim(min(0.0, _min_time_ms(waterfall)), _max_time_ms(waterfall) * 1.27)
    axes.set_ylim(last + 0.6, -0.6)


def _label_waterfall_rows(axes: Axes, faster: str, slower: str, waterfall: Waterfall) -> None:
    labels = [
        _two_line_label(faster),
        *(_wrap_part(stride.part) for stride in waterfall.steps),
        _two_line_label(slower),
    ]
    axes.set_yticks(range(len(labels)), labels=labels)
    axes.tick_params(axis="y", length=0, pad=6)
    shown = axes.get_yticklabels()
    for label, stride in zip(shown[1:-1], waterfall.steps, strict=True):
        label.set_fontweight("bold" if stride.is_dominant else "normal")


def _two_line_label(system: str) -> str:
    """Name a system on two lines."""
    return f"{labels.framework_label(labels.framework_of(system))}\n{labels.synchronisation_label(system)}"


def _wrap_part(part: str) -> str:
    """Name a part; of several phases on lines of its own where it would be too long."""
    return part.replace(" + ", " +\n", 1) if len(part) > 20 else part


def _plot_total(axes: Axes, row: int, spent_s: float, system: str) -> None:
    colour = system_colour(system)
    axes.barh(
        row, spent_s * 1e3, height=_BAR_HEIGHT, color=colour, edgecolor=BACKGROUND, linewidth=0.8
    )
    _annotate_bar(axes, row, spent_s * 1e3, f"{spent_s * 1e3:.2f}")


def _plot_step(axes: Axes, row: int, from_s: float, step: WaterfallStep) -> None:
    axes.barh(
        row,
        step.added_s * 1e3,
        left=from_s * 1e3,
        height=_BAR_HEIGHT,
        color=PHASE_COLOURS.get(step.colour_of, UNKNOWN_COLOUR),
        hatch=PHASE_HATCHES.get(step.colour_of),
        edgecolor=BACKGROUND,
        linewidth=0.8,
    )
    ends = [from_s, from_s + step.added_s]
    if not math.isnan(step.low_s):
        between = [(from_s + step.low_s) * 1e3, (from_s + step.high_s) * 1e3]
        axes.plot(between, [row, row], color=FOREGROUND, linewidth=1.2, solid_capstyle="butt")
        ends += [from_s + step.high_s]
    share = "" if math.isnan(step.fraction) else f" ({step.fraction:.0%})".replace("-", "−")
    text = f"{step.added_s * 1e3:+.2f}{share}".replace("-", "−")
    _annotate_bar(axes, row, max(ends) * 1e3, text, bold=step.is_dominant)


def _annotate_bar(axes: Axes, row: int, right: float, text: str, *, bold: bool = False) -> None:
    axes.annotate(
        text,
        (right, row),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        fontweight="bold" if bold else "normal",
    )


def _marked_times_ms(waterfall: Waterfall) -> list[float]:
    """List all the times that a mark of the figure stands at, in milliseconds."""
    found, reached = [waterfall.start_s, waterfall.end_s], waterfall.start_s
    for stride in waterfall.steps:
        ends = (stride.added_s, stride.low_s, stride.high_s)
        found += [reached + each for each in ends if not math.isnan(each)]
        reached += stride.added_s
    return [each * 1e3 for each in found]


def _min_time_ms(waterfall: Waterfall) -> float:
    return min(_marked_times_ms(waterfall))


def _max_time_ms(waterfall: Waterfall) -> float:
    return max(_marked_times_ms(waterfall))
