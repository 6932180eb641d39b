"""Throughput and speedup over the number of workers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from horizont.report import words
from horizont.report.figures.legends import put_above, system_line
from horizont.report.style import (
    FAINT,
    FRAMEWORK_MARKS,
    INK,
    PAPER,
    Dash,
    drawing,
    new_figure,
    only_grid,
    system_colour,
    system_dash,
)


def scaling_curves(table: pd.DataFrame, *, strong: bool) -> Figure:
    """Draw examples per second (above) and speedup (below), a column a batch.

    Parameters
    ----------
    table
        As of `horizont.analysis.scaling`.
    strong
        Whether the batch is that of all workers together.
    """
    batches = sorted(table["batch"].unique()) if len(table) else []
    with drawing():
        figure = new_figure(5.0 if batches else 1.0)
        if not batches:
            figure.text(0.5, 0.5, "no run was made", ha="center", color=FAINT)
            return figure
        panels = figure.subplots(2, len(batches), squeeze=False, sharex=True, sharey="row")
        for column, batch in zip(panels.T, batches, strict=True):
            own = table[table["batch"] == batch]
            column[0].set_title(f"batch of {'all' if strong else 'each'}: {batch:,}")
            _draw_curves(column[0], own, "examples_per_s", "low", "high")
            _draw_curves(column[1], own, "speedup", "speedup_low", "speedup_high")
            _draw_ideal(column[1], own)
            column[1].set_xlabel("workers")
        panels[0, 0].set_ylabel("examples per second")
        panels[0, 0].yaxis.set_major_formatter("{x:,.0f}")
        panels[1, 0].set_ylabel("speedup")
        for axes in panels.flat:
            _finish(axes, sorted(table["workers"].unique()))
        _legend(figure, table)
    return figure


def _draw_curves(axes: Axes, table: pd.DataFrame, value: str, low: str, high: str) -> None:
    for _, curve in table.groupby(["system", "servers"], sort=False):
        system, servers = str(curve["system"].iloc[0]), int(curve["servers"].iloc[0])
        framework = words.framework_of(system)
        colour = system_colour(system)
        dash = _dash(system, servers, table)
        axes.plot(curve["workers"], curve[value], color=colour, linestyle=dash, linewidth=1.2)
        axes.vlines(curve["workers"], curve[low], curve[high], color=colour, linewidth=1)
        for _, point in curve.iterrows():
            axes.plot(
                point["workers"],
                point[value],
                FRAMEWORK_MARKS.get(framework, "o"),
                color=PAPER if point["crowded"] else colour,
                markeredgecolor=colour,
                markersize=5,
            )


def _dash(system: str, servers: int, table: pd.DataFrame) -> Dash:
    """Tell one server from several where both are drawn, else one system from the other."""
    if table.loc[table["servers"] > 0, "servers"].nunique() > 1:
        return "-" if servers <= 1 else "--"
    return system_dash(system)


def _draw_ideal(axes: Axes, table: pd.DataFrame) -> None:
    workers = np.array(sorted(table["workers"].unique()))
    axes.plot(workers, workers, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))


def _finish(axes: Axes, workers: list[int]) -> None:
    only_grid(axes, "y")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(workers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")


def _legend(figure: Figure, table: pd.DataFrame) -> None:
    curves = table.drop_duplicates(["system", "servers"])
    several = curves.loc[curves["servers"] > 0, "servers"].nunique() > 1
    handles = []
    for _, curve in curves.iterrows():
        system, servers = str(curve["system"]), int(curve["servers"])
        told = several and servers > 0
        note = f", {servers} server{'s' if servers > 1 else ''}" if told else ""
        handles.append(system_line(system, True, _dash(system, servers, table), note))
    put_above(figure, handles, 2, handlelength=2.4)
