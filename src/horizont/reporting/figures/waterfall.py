"""Waterfalls: how the step of a system becomes that of another, part by part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.analysis.drilldown import LOCAL, Difference, Drilldown
from horizont.analysis.steps import GROUP_SEPARATOR
from horizont.reporting import labels
from horizont.reporting.output import Stack
from horizont.reporting.registry import Drawing, figure, table
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

#: Operator classes of a waterfall; smaller ones are combined into one row.
MAX_OPERATOR_CLASSES = 8

#: A smaller fraction of a step would be thinner than a line.
MIN_VISIBLE_FRACTION = 0.001

#: Height of a row in inches.
_ROW_HEIGHT = 0.36
_BAR_HEIGHT = 0.62


@dataclass(frozen=True)
class WaterfallStep:
    """The contribution of a part.

    Attributes
    ----------
    added_s, low_s, high_s
        Negative if the part is shorter in the slower system; the interval may be NaN.
    fraction
        Of the whole difference.
    colour_of
        The phase that gives its colour.
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
    """The steps from the time of the faster system to that of the slower one."""

    title: str
    start_s: float
    end_s: float
    steps: Sequence[WaterfallStep]

    def plotted_times_ms(self) -> list[float]:
        """List the positions of all bars and intervals."""
        times_s, position_s = [self.start_s, self.end_s], self.start_s
        for step in self.steps:
            ends = (step.added_s, step.low_s, step.high_s)
            times_s += [position_s + end for end in ends if not math.isnan(end)]
            position_s += step.added_s
        return [time_s * 1e3 for time_s in times_s]


@table("waterfalls", title="From the fastest system to the others")
def waterfall_figures(drilldowns: Sequence[Drilldown]) -> Stack:
    """Plot the waterfalls from the fastest system to the others, by number of workers."""
    return Stack(
        tuple(waterfall_figure(pair) for pair in _pairs_with_fastest(drilldowns) if pair.parts)
    )


def _pairs_with_fastest(drilldowns: Iterable[Drilldown]) -> list[Drilldown]:
    groups: dict[int, list[tuple[Drilldown, Difference]]] = {}
    for drilldown in drilldowns:
        if drilldown.timed is not None and not math.isnan(drilldown.timed.a_s):
            workers = drilldown.pair.records_a[0].run.topology.workers
            groups.setdefault(workers, []).append((drilldown, drilldown.timed))
    selected = []
    for group in groups.values():
        times_s = {drilldown.pair.a: timed.a_s for drilldown, timed in group}
        times_s |= {drilldown.pair.b: timed.b_s for drilldown, timed in group}
        fastest = min(times_s, key=lambda system: times_s[system])
        selected += [pair for pair, _ in group if fastest in (pair.pair.a, pair.pair.b)]
    return selected


@figure("why-{a}-{b}")
def waterfall_figure(drilldown: Drilldown) -> Drawing:
    """From an instrumented step of {faster} to one of {slower}: the contribution of each part, and
    its fraction of the difference. Means over the blocks; the line in a bar is the 95 % interval of
    the difference. Bold: dominant parts.
    """
    is_swapped = drilldown.timed is not None and drilldown.timed.difference_s < 0
    systems = (drilldown.pair.a, drilldown.pair.b)
    faster, slower = reversed(systems) if is_swapped else systems
    values = {
        "a": _slug(drilldown.pair.a),
        "b": _slug(drilldown.pair.b),
        "faster": labels.system_label(faster),
        "slower": labels.system_label(slower),
    }
    waterfalls = _waterfalls(drilldown, is_swapped)
    return Drawing(waterfall_chart(faster, slower, waterfalls), drilldown.table(), values)


def _slug(system: str) -> str:
    return system.replace("/", "-").replace("_", "-").replace("+", "-")


def _waterfalls(drilldown: Drilldown, is_swapped: bool) -> list[Waterfall]:
    """Build the waterfall of the step, and that of the operator classes if there are any."""
    kinds, phases = drilldown.children("step"), drilldown.children(LOCAL)
    parts = [part for part in phases if part.level == "phase"]
    parts += [part for part in kinds if part.part != LOCAL]
    title = "one step of a worker"
    waterfalls = [_waterfall(title, drilldown.parts[0], parts, drilldown, is_swapped)]
    classes = [part for part in drilldown.parts if part.level == "class"]
    if classes:
        parent = next(part for part in drilldown.parts if part.part == classes[0].parent)
        if len(classes) > MAX_OPERATOR_CLASSES:
            classes = _combine_smaller(classes)
        title = f"{parent.part}, by operators"
        waterfalls.append(_waterfall(title, parent, classes, drilldown, is_swapped))
    return waterfalls


def _combine_smaller(classes: Sequence[Difference]) -> list[Difference]:
    first, rest = classes[: MAX_OPERATOR_CLASSES - 1], classes[MAX_OPERATOR_CLASSES - 1 :]
    difference_s = sum(part.difference_s for part in rest)
    others = Difference("class", rest[0].parent, "all others", math.nan, math.nan, difference_s)
    return [*first, others]


def _waterfall(
    title: str,
    total: Difference,
    parts: Sequence[Difference],
    drilldown: Drilldown,
    is_swapped: bool,
) -> Waterfall:
    ends = (total.b_s, total.a_s) if is_swapped else (total.a_s, total.b_s)
    steps = [_waterfall_step(part, drilldown, -1 if is_swapped else 1) for part in parts]
    visible = [step for step in steps if abs(step.added_s) >= MIN_VISIBLE_FRACTION * max(ends)]
    return Waterfall(title, *ends, visible)


def _waterfall_step(part: Difference, drilldown: Drilldown, sign: int) -> WaterfallStep:
    whole_s = drilldown.parts[0].difference_s
    low_s, high_s = sorted((sign * part.low_s, sign * part.high_s))
    phases = (part.parent if part.level == "class" else part.part).split(GROUP_SEPARATOR)
    return WaterfallStep(
        part=part.part,
        added_s=sign * part.difference_s,
        low_s=low_s,
        high_s=high_s,
        fraction=part.difference_s / whole_s if drilldown.is_explained else math.nan,
        is_dominant=part in drilldown.path,
        colour_of="communication" if "communication" in phases else phases[0],
    )


def waterfall_chart(faster: str, slower: str, waterfalls: Sequence[Waterfall]) -> Figure:
    """Plot waterfalls between two systems below each other."""
    heights = [_ROW_HEIGHT * (len(waterfall.steps) + 2) + 0.55 for waterfall in waterfalls]
    with book_style():
        plot = new_figure(sum(heights) + 0.25)
        panels = plot.subplots(len(waterfalls), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, waterfall in zip(panels, waterfalls, strict=True):
            _plot_waterfall(axes, faster, slower, waterfall)
        panels[-1].set_xlabel("milliseconds")
    return plot


def _plot_waterfall(axes: Axes, faster: str, slower: str, waterfall: Waterfall) -> None:
    grid_axis(axes, "x")
    axes.set_title(waterfall.title, pad=6)
    last = len(waterfall.steps) + 1
    for row, time_s, system in ((0, waterfall.start_s, faster), (last, waterfall.end_s, slower)):
        style: dict[str, Any] = {
            "color": system_colour(system),
            "edgecolor": BACKGROUND,
            "linewidth": 0.8,
        }
        axes.barh(row, time_s * 1e3, height=_BAR_HEIGHT, **style)
        _annotate_bar(axes, row, time_s * 1e3, f"{time_s * 1e3:.2f}")
    position_s = waterfall.start_s
    for row, step in enumerate(waterfall.steps, start=1):
        _plot_step(axes, row, position_s, step)
        position_s += step.added_s
        axes.plot([position_s * 1e3] * 2, [row, row + 1], color=MUTED, linewidth=0.8, linestyle=":")
    _label_rows(axes, faster, slower, waterfall)
    times_ms = waterfall.plotted_times_ms()
    axes.set_xlim(min(0.0, *times_ms), max(times_ms) * 1.27)
    axes.set_ylim(last + 0.6, -0.6)


def _label_rows(axes: Axes, faster: str, slower: str, waterfall: Waterfall) -> None:
    ends = (labels.two_line_label(faster), labels.two_line_label(slower))
    # Groups of phases are wrapped where they would be too long for one line.
    parts = [
        step.part.replace(" + ", " +\n", 1) if len(step.part) > 20 else step.part
        for step in waterfall.steps
    ]
    names = [ends[0], *parts, ends[1]]
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0, pad=6)
    for label, step in zip(axes.get_yticklabels()[1:-1], waterfall.steps, strict=True):
        label.set_fontweight("bold" if step.is_dominant else "normal")


def _plot_step(axes: Axes, row: int, start_s: float, step: WaterfallStep) -> None:
    axes.barh(
        row,
        step.added_s * 1e3,
        left=start_s * 1e3,
        height=_BAR_HEIGHT,
        color=PHASE_COLOURS.get(step.colour_of, UNKNOWN_COLOUR),
        hatch=PHASE_HATCHES.get(step.colour_of),
        edgecolor=BACKGROUND,
        linewidth=0.8,
    )
    ends = [start_s, start_s + step.added_s]
    if not math.isnan(step.low_s):
        interval = [(start_s + step.low_s) * 1e3, (start_s + step.high_s) * 1e3]
        axes.plot(interval, [row, row], color=FOREGROUND, linewidth=1.2, solid_capstyle="butt")
        ends += [start_s + step.high_s]
    fraction = "" if math.isnan(step.fraction) else f" ({step.fraction:.0%})"
    text = f"{step.added_s * 1e3:+.2f}{fraction}".replace("-", "−")
    _annotate_bar(axes, row, max(ends) * 1e3, text, weight="bold" if step.is_dominant else "normal")


def _annotate_bar(axes: Axes, row: int, end: float, text: str, weight: str = "normal") -> None:
    axes.annotate(
        text,
        (end, row),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        fontweight=weight,
    )
