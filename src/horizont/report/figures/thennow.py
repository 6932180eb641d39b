"""Then and now: published and measured steps, each in units of one system's."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.analysis import PARTS
from horizont.report import words
from horizont.report.figures.bars import Look, stack, swatch
from horizont.report.figures.labels import row_axes
from horizont.report.figures.legends import put_above
from horizont.report.style import FAINT, INK, PART_COLOURS, drawing, new_figure

_BAR = 0.34
_ROW = 0.62

#: Time -> where its bar lies in a system's row, and what stands at its end.
_TIMES = {"then": (-0.19, "published"), "now": (0.19, "here")}


def then_now_bars(table: pd.DataFrame) -> Figure:
    """Draw two stacked bars for each system: the published one above, the measured one below.

    Parameters
    ----------
    table
        As of `horizont.analysis.claims.then_and_now`.
    """
    systems = list(dict.fromkeys(table["system"]))
    with drawing():
        figure = new_figure(_ROW * len(systems) + 1.2)
        axes = row_axes(figure, systems)
        ends = table.groupby(["system", "time"])["share"].sum()
        longest = float(ends.max()) if len(ends) else 1.0
        axes.set_xlim(0, longest * 1.22)
        axes.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        for row, system in enumerate(systems):
            for time in _TIMES:
                own = table[(table["system"] == system) & (table["time"] == time)]
                _draw_bar(axes, row, time, own)
        axes.set_xlabel("training time, PyTorch synchronous = 1, then and now each")
        _legend(figure, set(table.loc[table["share"] > 0, "part"]))
    return figure


def _draw_bar(axes: Axes, row: int, time: str, own: pd.DataFrame) -> None:
    offset, said = _TIMES[time]
    shares = own.set_index("part")["share"]
    pieces = [(float(shares.get(part, 0.0)), Look(PART_COLOURS[part])) for part in PARTS]
    end = stack(axes, row + offset, pieces, _BAR)
    axes.annotate(
        f"{said}: {end:.2f}" if end else f"{said}: no figure",
        (end, row + offset),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=INK if end else FAINT,
        style="normal" if end else "italic",
        fontsize=8,
    )


def _legend(figure: Figure, shown: set[str]) -> None:
    names = {part: words.PARTS[part] for part in PARTS}
    names["communication"] = "network (waiting included)"
    handles = [swatch(Look(PART_COLOURS[part]), names[part]) for part in PARTS if part in shown]
    put_above(figure, handles, 3, columnspacing=1.4)
