"""Waterfalls: how the step of a system becomes that of another, part by part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from horizont.analysis.drilldown import LOCAL, Difference, Drilldown
from horizont.analysis.steps import GROUP_SEPARATOR
from horizont.analysis.verdicts import NOT_COMPARABLE
from horizont.config.system import parse_system
from horizont.reporting import labels, style
from horizont.reporting.output import Stack
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_number

#: Operator classes of a waterfall; smaller ones are combined into one row.
MAX_OPERATOR_CLASSES = 8

#: A smaller fraction of a step would be thinner than a line.
MIN_VISIBLE_FRACTION = 0.001

#: Height of a row in inches.
_ROW_HEIGHT = 0.36
_BAR: dict[str, Any] = {"height": 0.62, "edgecolor": style.BACKGROUND, "linewidth": 0.8}


@table("waterfalls", title="From the fastest system to the others")
def waterfall_figures(drilldowns: Sequence[Drilldown], verdicts: pd.DataFrame) -> Stack:
    """Plot the waterfalls from the fastest system to the others, by number of workers.

    Systems that are not comparable are left out, unless none is.
    """
    rows = verdicts.to_dict("records")
    excluded = {frozenset((r["a"], r["b"])) for r in rows if r["outcome"] == NOT_COMPARABLE}
    comparable = [d for d in drilldowns if frozenset((d.pair.a, d.pair.b)) not in excluded]
    pairs = _pairs_with_fastest(comparable or drilldowns)
    return Stack(tuple(waterfall_figure(pair) for pair in pairs if pair.parts))


def _pairs_with_fastest(drilldowns: Iterable[Drilldown]) -> list[Drilldown]:
    groups: dict[int, list[tuple[Drilldown, Difference]]] = {}
    for drilldown in drilldowns:
        if drilldown.timed is not None and not math.isnan(drilldown.timed.a_s):
            workers = drilldown.pair.records_a[0].run.topology.workers
            groups.setdefault(workers, []).append((drilldown, drilldown.timed))
    selected = []
    for group in groups.values():
        times_s = {each.pair.a: timed.a_s for each, timed in group}
        times_s |= {each.pair.b: timed.b_s for each, timed in group}
        fastest = min(times_s, key=lambda system: times_s[system])
        selected += [each for each, _ in group if fastest in (each.pair.a, each.pair.b)]
    return selected


@figure("why-{a}-{b}")
def waterfall_figure(drilldown: Drilldown) -> Drawing:
    """From an instrumented step of {faster} to one of {slower}: the contribution of each part, and
    its fraction of the difference. Means over the blocks; the line in a bar is the 95% interval of
    the difference. Bold: dominant parts.
    """
    a, b = drilldown.pair.a, drilldown.pair.b
    is_swapped = drilldown.timed is not None and drilldown.timed.difference_s < 0
    faster, slower = (b, a) if is_swapped else (a, b)
    values = {
        "a": parse_system(a).slug,
        "b": parse_system(b).slug,
        "faster": labels.system_label(faster),
        "slower": labels.system_label(slower),
    }
    charts = _charts(drilldown)
    heights = [_ROW_HEIGHT * (len(parts) + 2) + 0.55 for _, _, parts in charts]
    plot = style.new_figure(sum(heights) + 0.25)
    panels = plot.subplots(len(charts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, total, parts) in zip(panels, charts, strict=True):
        axes.set_title(title, pad=6)
        ends_s = (total.b_s, total.a_s) if is_swapped else (total.a_s, total.b_s)
        _plot_total(axes, 0, faster, ends_s[0])
        _plot_total(axes, len(parts) + 1, slower, ends_s[1])
        _plot_parts(axes, drilldown, parts, ends_s, -1 if is_swapped else 1)
        _label_rows(axes, drilldown, parts, faster, slower)
    panels[-1].set_xlabel("milliseconds")
    return Drawing(plot, drilldown.table(), values)


def _charts(drilldown: Drilldown) -> list[tuple[str, Difference, list[Difference]]]:
    """Return title, whole and visible parts: of the step, and of the operator classes if any."""
    kinds, phases = drilldown.children("step"), drilldown.children(LOCAL)
    parts = [part for part in phases if part.level == "phase"]
    parts += [part for part in kinds if part.part != LOCAL]
    charts = [("one step of a worker", drilldown.parts[0], parts)]
    classes = [part for part in drilldown.parts if part.level == "class"]
    if classes:
        parent = next(part for part in drilldown.parts if part.part == classes[0].parent)
        if len(classes) > MAX_OPERATOR_CLASSES:
            classes = _combine_smaller(classes)
        charts.append((f"{parent.part}, by operators", parent, classes))
    return [
        (title, whole, [part for part in parts if abs(part.difference_s) >= least_s])
        for title, whole, parts in charts
        for least_s in [MIN_VISIBLE_FRACTION * max(whole.a_s, whole.b_s)]
    ]


def _combine_smaller(classes: Sequence[Difference]) -> list[Difference]:
    first, rest = classes[: MAX_OPERATOR_CLASSES - 1], classes[MAX_OPERATOR_CLASSES - 1 :]
    difference_s = sum(part.difference_s for part in rest)
    others = Difference("class", rest[0].parent, "all others", math.nan, math.nan, difference_s)
    return [*first, others]


def _plot_total(axes: Axes, row: int, system: str, time_s: float) -> None:
    axes.barh(row, time_s * 1e3, color=style.system_colour(system), **_BAR)
    style.annotate(axes, f"{time_s * 1e3:.2f}", (time_s * 1e3, row), (5, 0))


def _plot_parts(
    axes: Axes,
    drilldown: Drilldown,
    parts: Sequence[Difference],
    ends_s: tuple[float, float],
    sign: int,
) -> None:
    """Plot the contribution of each part, from the end of the part above it.

    The sign is -1 if A is the slower system, since differences are B - A.
    """
    style.grid_axis(axes, "x")
    position = ends_s[0] * 1e3
    plotted = [0.0, *(end_s * 1e3 for end_s in ends_s)]
    whole_s = drilldown.parts[0].difference_s
    for row, part in enumerate(parts, start=1):
        added = sign * part.difference_s * 1e3
        phase = _phase_of(part)
        colour, hatch = style.PHASE_FILLS.get(phase, (style.UNKNOWN_COLOUR, None))
        axes.barh(row, added, left=position, color=colour, hatch=hatch, **_BAR)
        ends = [position, position + added]
        interval = sorted(position + sign * end_s * 1e3 for end_s in (part.low_s, part.high_s))
        if not math.isnan(part.low_s):
            line: dict[str, Any] = {"linewidth": 1.2, "solid_capstyle": "butt"}
            axes.plot(interval, [row, row], color=style.FOREGROUND, **line)
            ends += interval
        fraction = format_number(part.difference_s / whole_s, ".0%")
        text = format_number(added, "+.2f") + (f" ({fraction})" if drilldown.is_explained else "")
        weight = "bold" if part in drilldown.path else "normal"
        style.annotate(axes, text, (max(ends), row), (5, 0), fontweight=weight)
        plotted += ends
        position += added
        axes.plot([position] * 2, [row, row + 1], color=style.MUTED, linewidth=0.8, linestyle=":")
    axes.set_xlim(min(plotted), max(plotted) * 1.27)
    axes.set_ylim(len(parts) + 1.6, -0.6)


def _phase_of(part: Difference) -> str:
    """Return the phase that gives a part its colour."""
    phases = (part.parent if part.level == "class" else part.part).split(GROUP_SEPARATOR)
    return "communication" if "communication" in phases else phases[0]


def _label_rows(
    axes: Axes, drilldown: Drilldown, parts: Sequence[Difference], faster: str, slower: str
) -> None:
    # Groups of phases are wrapped where they would be too long for one line.
    names = [
        part.part.replace(" + ", " +\n", 1) if len(part.part) > 20 else part.part for part in parts
    ]
    names = [labels.two_line_label(faster), *names, labels.two_line_label(slower)]
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0, pad=6)
    for label, part in zip(axes.get_yticklabels()[1:-1], parts, strict=True):
        label.set_fontweight("bold" if part in drilldown.path else "normal")
