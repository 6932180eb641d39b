"""Then and now: the published claims as a grid, coloured and marked by verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from horizont.analysis.claims.findings import VERDICTS, Verdict
from horizont.analysis.claims.publications import publication_of
from horizont.reporting import style
from horizont.reporting.registry import Drawing, figure

#: Verdict -> colour and mark, which differ in lightness and in shape.
VERDICT_STYLES: dict[Verdict, tuple[str, str]] = {
    "reproduced": ("#3f9c7c", "o"),
    "not reproduced": ("#efa58f", "X"),
    "reversed": ("#c8413b", "v"),
    "not settled": ("#e3cf6b", "D"),
    "not testable": (style.GRID, "_"),
}

_COLUMNS = 10
_CELL = 0.86  # of the distance between two cells
_ROW_HEIGHT = 0.62


@figure("then-and-now", title="Then and now")
def claim_grid(claims: Sequence[Mapping[str, Any]]) -> Drawing:
    """The published claims, coloured and marked by verdict. The letter is the level of evidence, A
    to D; without one, no part of the claim was tested.
    """
    rows: list[dict[str, Any]] = []
    headings: dict[int, str] = {}
    row = 0
    for source in dict.fromkeys(publication_of(claim["source"]) for claim in claims):
        own = [claim for claim in claims if publication_of(claim["source"]) == source]
        headings[row] = source
        fields = ("id", "verdict", "evidence")
        rows += [
            {"source": source, **{name: claim[name] for name in fields}}
            | {"row": row + index // _COLUMNS, "column": index % _COLUMNS}
            for index, claim in enumerate(own)
        ]
        row += ceil(len(own) / _COLUMNS)
    canvas = style.new_figure(0.7 + _ROW_HEIGHT * row)
    axes = canvas.subplots()
    axes.set_axis_off()
    axes.set_xlim(-1.1, _COLUMNS)
    axes.set_ylim(row, 0)
    for top, source in headings.items():
        name = source.replace(" ", "\n")
        axes.text(-0.15, top + _CELL / 2, name, ha="right", va="center", weight="bold")
    for each in rows:
        _draw_cell(axes, each)
    counts = {name: sum(each["verdict"] == name for each in rows) for name in VERDICTS}
    handles = [_legend_mark(name, count) for name, count in counts.items() if count]
    style.legend_above(canvas, handles, 3, columnspacing=1.2)
    return Drawing(canvas, pd.DataFrame(rows))


def _draw_cell(axes: Any, claim: Mapping[str, Any]) -> None:
    x, y = claim["column"], claim["row"]
    colour, mark = VERDICT_STYLES[claim["verdict"]]
    # The fill is pale, so that the text is readable on light and on dark pages.
    box: dict[str, Any] = {"facecolor": colour, "alpha": 0.35, "edgecolor": "none"}
    axes.add_patch(Rectangle((x, y), _CELL, _CELL, **box))
    axes.plot(x + 0.22, y + 0.62, mark, color=_mark_colour(claim["verdict"]), markersize=6)
    axes.text(x + _CELL / 2, y + 0.24, claim["id"], ha="center", va="center", fontsize=8)
    axes.text(x + 0.62, y + 0.62, claim["evidence"] or "", ha="center", va="center", weight="bold")


def _mark_colour(verdict: Verdict) -> str:
    return style.MUTED if verdict == "not testable" else VERDICT_STYLES[verdict][0]


def _legend_mark(verdict: Verdict, count: int) -> Line2D:
    mark = VERDICT_STYLES[verdict][1]
    colour = _mark_colour(verdict)
    label = f"{verdict} ({count})"
    return Line2D([], [], color=colour, marker=mark, linestyle="none", markersize=7, label=label)
