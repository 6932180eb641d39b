"""How far the frameworks are apart, from the first weight to the last update."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from horizont.report import words
from horizont.report.style import (
    GRID,
    INK,
    PAIR_COLOURS,
    PAIR_MARKS,
    drawing,
    new_figure,
    only_grid,
)

#: Where an exact zero is drawn on a logarithmic axis.
_ZERO = 1e-18


def distances(rows: pd.DataFrame) -> Figure:
    """Draw the largest distance of all tensors, by pair, in the order in which training computes.

    Parameters
    ----------
    rows
        The rows of a proof: ``quantity, step, pair, dtype, distance, noise, bound, ok``.
    """
    rows = _folded(rows)
    with drawing():
        figure = new_figure(3.9)
        panels = figure.subplots(1, 2, sharey=True)
        for axes, dtype in zip(panels, ("float64", "float32"), strict=True):
            _draw_panel(axes, rows[rows["dtype"] == dtype])
            axes.set_title(dtype)
        panels[0].set_ylabel("distance, relative")
        panels[0].set_ylim(_ZERO / 4, 10)
        panels[0].set_yticks([_ZERO, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1])
        panels[0].set_yticklabels(["equal", *(f"1e{p}" for p in (-15, -12, -9, -6, -3)), "1"])
        panels[0].minorticks_off()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=5)
    return figure


def _folded(rows: pd.DataFrame) -> pd.DataFrame:
    """Draw what belongs to the updates, statistics and optimizer state, over all steps at once."""
    beside = rows["quantity"].isin(["statistics", "optimizer"])
    return rows.assign(step=rows["step"].where(~beside, 0))


def _draw_panel(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_yscale("log")
    only_grid(axes, "y")
    worst = (
        rows.groupby(["quantity", "step", "pair"], sort=False)
        .agg(
            distance=("distance", "max"),
            noise=("noise", "max"),
            bound=("bound", "max"),
            ok=("ok", "all"),
        )
        .reset_index()
    )
    places = list(dict.fromkeys(zip(worst["quantity"], worst["step"], strict=True)))
    worst["place"] = [
        places.index(key) for key in zip(worst["quantity"], worst["step"], strict=True)
    ]
    for number, (pair, own) in enumerate(worst.groupby("pair")):
        shift = 0.22 * (number - (worst["pair"].nunique() - 1) / 2)
        _draw_pair(axes, own, str(pair), number, shift)
    lines = worst.groupby("place")[["noise", "bound"]].max().astype(float)
    for place, (_, line) in zip(lines.index.astype(int), lines.iterrows(), strict=True):
        ends = [place - 0.42, place + 0.42]
        bound = max(line["bound"], _ZERO)
        axes.plot(ends, [bound, bound], color=INK, linewidth=1.4)
        if line["noise"] > 0:
            axes.fill_between(ends, _ZERO / 10, line["noise"], color=GRID, linewidth=0)
    axes.plot([], [], color=INK, linewidth=1.4, label="bound")
    axes.fill_between([], [], [], color=GRID, linewidth=0, label="noise")
    axes.set_xticks(range(len(places)), labels=[_place_name(*place) for place in places])
    axes.tick_params(axis="x", labelsize=7.5, labelrotation=0)
    axes.set_xlim(-0.6, max(len(places) - 0.4, 0.6))


def _draw_pair(axes: Axes, rows: pd.DataFrame, pair: str, number: int, shift: float) -> None:
    colour = PAIR_COLOURS[number % len(PAIR_COLOURS)]
    mark = PAIR_MARKS[number % len(PAIR_MARKS)]
    heights = np.clip(rows["distance"].to_numpy(float), _ZERO, 5.0)
    axes.plot(
        rows["place"] + shift, heights, mark, color=colour, markersize=5, label=words.pair(pair)
    )
    broken = ~rows["ok"].to_numpy(bool)
    if broken.any():
        axes.plot(
            rows["place"][broken] + shift,
            heights[broken],
            "o",
            fillstyle="none",
            color="#c8413b",
            markersize=12,
            markeredgewidth=1.6,
        )


def _place_name(quantity: str, step: int) -> str:
    if quantity == "update":
        return f"step\n{step}"
    return {"gradient": "grad.", "statistics": "stat.", "optimizer": "opt."}.get(quantity, quantity)
