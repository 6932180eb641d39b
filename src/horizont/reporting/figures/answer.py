"""The answer in a figure: the fastest system of each network, and its lead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from horizont.analysis.answer import ONE, SEVERAL, Answer
from horizont.reporting import labels, style
from horizont.reporting.answer import short_system_label
from horizont.reporting.registry import Drawing, figure, no_drawing


@figure("answer-figure", title="The fastest of each network")
def answer_figure(answers: Sequence[Answer]) -> Drawing:
    """The fastest system of each network, and how many times the throughput of the next one it
    reaches, with the 95% interval. In grey: the lead is not clear. Hollow markers: asynchronous
    systems.
    """
    leads = _leads(answers)
    if leads.empty:
        return no_drawing("no two systems were compared by speed")
    names = list(dict.fromkeys(leads["workload"]))
    plot = style.new_figure(1.0 + 0.32 * len(names))
    panels = plot.subplots(1, 2, sharex=True, sharey=True)
    for axes, setting in zip(panels, (ONE, SEVERAL), strict=True):
        for lead in leads[leads["setting"] == setting].to_dict("records"):
            row = names.index(lead["workload"])
            is_clear = lead["verdict"] == "clear"
            colour = style.FOREGROUND if is_clear else style.MUTED
            axes.plot([lead["low"], lead["high"]], [row, row], color=colour, linewidth=1.4)
            axes.plot(lead["ratio"], row, markersize=6, **style.marker_style(lead["system"]))
            end, label = (lead["high"], row), short_system_label(lead["system"])
            offset: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points"}
            axes.annotate(label, end, **offset, va="center", fontsize=8, color=colour)
        axes.axvline(1.0, color=style.FOREGROUND, linewidth=0.8)
        axes.set_title(setting)
        axes.set_xlabel("throughput / that of the next")
        style.grid_axis(axes, "x")
    low, high = min(1.0, leads["low"].min()), leads["high"].max()
    margin = high - low or 1.0
    # To the right of the longest interval, there is room for a name.
    panels[0].set_xlim(low - 0.06 * margin, high + 0.85 * margin)
    panels[0].set_yticks(range(len(names)), labels=map(labels.workload_label_from_name, names))
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    return Drawing(plot, leads)


def _leads(answers: Sequence[Answer]) -> pd.DataFrame:
    """Return ``workload, setting, system, next, ratio, low, high, verdict`` of the comparable."""
    rows = [
        (answer.workload, setting, cell.winner, cell.runner_up, cell.ratio, cell.low, cell.high,
         cell.verdict)
        for answer in answers
        for setting in (ONE, SEVERAL)
        if (cell := answer.cells[setting]).verdict not in {None, "not comparable"}
    ]  # fmt: skip
    columns = ["workload", "setting", "system", "next", "ratio", "low", "high", "verdict"]
    leads = pd.DataFrame(rows, columns=columns)
    for end in ("low", "high"):  # a single block has no interval
        leads[end] = leads[end].fillna(leads["ratio"])
    return leads
