"""Where a step's time goes: a stacked bar for each system."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from horizont.analysis import PARTS
from horizont.report import words
from horizont.report.figures.bars import part_look, stack, swatch
from horizont.report.figures.labels import ROW, name_rows, say_why_empty
from horizont.report.figures.legends import put_above
from horizont.report.style import FAINT, INK, PAPER, drawing, new_figure, only_grid

_BAR = 0.56


def phase_bars(phases: pd.DataFrame, times: pd.DataFrame, title: str = "") -> Figure:
    """Draw the parts of a worker's step as a stacked bar for each system.

    Bars are built from instrumented steps, the mark with its interval from bare ones: how far
    they lie apart is what looking cost.

    Parameters
    ----------
    phases
        As of `horizont.analysis.phases`.
    times
        As of `horizont.analysis.step_times`; a column ``reason`` tells why a row is empty.
    """
    return stacked_panels({title: (phases, times)})


def stacked_panels(panels: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> Figure:
    """Draw `phase_bars` for several workloads, one below the other.

    Parameters
    ----------
    panels
        Phases and step times by title.
    """
    rows = [times["system"].nunique() for _, times in panels.values()]
    heights = [ROW * count + 0.45 for count in rows]
    with drawing():
        figure = new_figure(sum(heights) + 0.75)
        drawn = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, (phases, times)) in zip(drawn, panels.items(), strict=True):
            _draw_panel(axes, phases, times)
            axes.set_title(title, pad=8)
        drawn[-1].set_xlabel("milliseconds for one step of a worker")
        shown = pd.concat([phases for phases, _ in panels.values()])
        _legend(figure, set(shown.loc[shown["mean_s"] > 0, "part"]))
    return figure


def _draw_panel(axes: Axes, phases: pd.DataFrame, times: pd.DataFrame) -> None:
    systems = list(times["system"])
    means = phases.pivot(index="system", columns="part", values="mean_s") * 1e3
    only_grid(axes, "x")
    name_rows(axes, systems)
    bare = (times[["bare_s", "bare_high_s"]] * 1e3).max(axis=None)
    longest = np.nanmax([means.sum(axis="columns").max(), bare, 1e-3])
    axes.set_xlim(0, longest * 1.1)
    for row, (_, time) in enumerate(times.iterrows()):
        own = means.loc[time["system"]]
        if own.notna().any():
            _draw_bar(axes, row, own)
        elif time["bare_s"] > 0:
            _draw_unsplit(axes, row, time["bare_s"] * 1e3)
        else:
            say_why_empty(axes, row, str(time.get("reason", "")))
        _mark_bare(axes, row, time)


def _draw_bar(axes: Axes, row: int, means: pd.Series) -> None:
    """Stack the measured parts and name the others; an overlap is seen in the table."""
    end = stack(axes, row, [(means[part], part_look(part)) for part in PARTS], _BAR)
    missing = [words.PARTS[part] for part in PARTS if np.isnan(means[part])]
    if end and missing and "communication" not in missing:
        _note(axes, row, "not apart: " + ", ".join(missing))


def _draw_unsplit(axes: Axes, row: int, width: float) -> None:
    """Draw an empty outline for a step that was timed but not taken apart."""
    axes.barh(row, width, height=_BAR, fill=False, edgecolor=FAINT, linewidth=1, linestyle="--")
    _note(axes, row, "phases not measured")


def _note(axes: Axes, row: int, text: str) -> None:
    axes.annotate(
        text,
        (0.0, row + _BAR / 2),
        xytext=(1, -1.5),
        textcoords="offset points",
        va="top",
        color=FAINT,
        style="italic",
        fontsize=7.5,
    )


def _mark_bare(axes: Axes, row: int, time: pd.Series) -> None:
    """Mark the bare step and its interval."""
    if not time["bare_s"] > 0:
        return
    low, high = time["bare_low_s"] * 1e3, time["bare_high_s"] * 1e3
    axes.plot([low, high], [row, row], color=INK, linewidth=1.4, solid_capstyle="butt")
    for end in (low, high):
        axes.plot([end, end], [row - 0.13, row + 0.13], color=INK, linewidth=1.4)
    axes.plot(
        time["bare_s"] * 1e3, row, "d", color=PAPER, markeredgecolor=INK, markersize=6, zorder=5
    )


def _legend(figure: Figure, shown: set[str]) -> None:
    handles: list[Artist] = [
        swatch(part_look(part), words.PARTS[part]) for part in PARTS if part in shown
    ]
    handles.append(Line2D([], [], color=INK, marker="d", markerfacecolor=PAPER, label="bare step"))
    columns = 4
    rows = -(-len(handles) // columns)
    if rows * columns == len(handles):  # columns are filled first, but rows are read
        handles = [handle for start in range(columns) for handle in handles[start::columns]]
    put_above(figure, handles, columns, columnspacing=1.4)
