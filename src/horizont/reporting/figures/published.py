"""The published studies: verdicts on their claims, and their times beside those measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from horizont.analysis.claims.findings import VERDICTS, Verdict
from horizont.analysis.claims.judge import REFERENCE, published_vs_measured
from horizont.analysis.claims.publications import publication_of
from horizont.analysis.ten_epochs import (
    PARTS,
    extrapolation_errors,
    has_ten_epochs,
    steps_of_ten_epochs,
    ten_epochs,
)
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import (
    empty_bar,
    fill_legend,
    interval_mark,
    stacked_bar,
    system_rows,
)
from horizont.reporting.figures.phases import has_phases
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_interval, format_number, text_table

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


@figure("then-and-now", title="Then and now")
def claim_grid(claims: Sequence[Mapping[str, Any]]) -> Drawing:
    """The published claims, coloured and marked by verdict. The letter is the level of evidence, A
    to D; without one, no part of the claim was tested.
    """
    rows: list[dict[str, Any]] = []
    canvas = style.new_figure(1.0)
    axes = canvas.subplots()
    axes.set_axis_off()
    height = 0
    for source in dict.fromkeys(publication_of(claim["source"]) for claim in claims):
        name = source.replace(" ", "\n")
        axes.text(-0.15, height + _CELL / 2, name, ha="right", va="center", weight="bold")
        own = [claim for claim in claims if publication_of(claim["source"]) == source]
        for index, claim in enumerate(own):
            fields = {name: claim[name] for name in ("id", "verdict", "evidence")}
            place = {"row": height + index // _COLUMNS, "column": index % _COLUMNS}
            rows.append({"source": source, **fields, **place})
            _draw_cell(axes, rows[-1])
        height += ceil(len(own) / _COLUMNS)
    canvas.set_figheight(0.7 + 0.62 * height)
    axes.set_xlim(-1.1, _COLUMNS)
    axes.set_ylim(height, 0)
    counts = {name: sum(each["verdict"] == name for each in rows) for name in VERDICTS}
    handles = [
        Line2D(
            [],
            [],
            color=_mark_colour(name),
            marker=VERDICT_STYLES[name][1],
            linestyle="none",
            markersize=7,
            label=f"{name} ({count})",
        )
        for name, count in counts.items()
        if count
    ]
    style.legend_above(canvas, handles, 3, columnspacing=1.2)
    return Drawing(canvas, pd.DataFrame(rows))


def _draw_cell(axes: Axes, claim: Mapping[str, Any]) -> None:
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


#: Origin of a time -> the offset of its bar in a system's row, and the label at the bar's end.
_ORIGINS = {"published": (-0.19, "published"), "measured": (0.19, "here")}


@figure("then-now-{workload}", title="Published and measured")
def published_vs_measured_figure(workload: str, records: Sequence[Record]) -> Drawing:
    """{label}: published times (2021, three machines) and times measured here ({experiment}), both
    relative to the system on the axis. Published network times are the difference
    between distributed and single-process training, and the update is part of the backward pass;
    here, transfer and waiting are measured, and the update is separate unless the server makes it.
    """
    times = published_vs_measured(workload, records)
    systems = list(dict.fromkeys(times["system"]))
    plot, axes = system_rows(systems, 1.2, row_height=0.62)
    ends = times.groupby(["system", "origin"])["fraction"].sum()
    axes.set_xlim(0, (float(ends.max()) if len(ends) else 1.0) * 1.22)
    axes.axvline(1.0, color=style.FOREGROUND, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    for row, system in enumerate(systems):
        for origin, (offset, label) in _ORIGINS.items():
            own = times[(times["system"] == system) & (times["origin"] == origin)]
            fractions = own.set_index("phase")["fraction"].reindex(style.PHASE_FILLS)
            segments = zip(fractions, style.PHASE_FILLS.values(), strict=True)
            end = stacked_bar(axes, row + offset, segments, 0.34)
            text, font = (f"{end:.2f}", {}) if end else ("no value", style.ASIDE)
            position = (end, row + offset)
            style.annotate(axes, f"{label}: {text}", position, (4, 0), fontsize=8, **font)
    axes.set_xlabel(f"training time relative to {labels.system_label(REFERENCE)}")
    present = set(times.loc[times["fraction"] > 0, "phase"])
    names = {"communication": "network (including waiting)"}
    fills = {names.get(p, p): fill for p, fill in style.PHASE_FILLS.items() if p in present}
    style.legend_above(plot, fill_legend(fills), 3, columnspacing=1.4)
    values = {
        "workload": workload,
        "label": labels.workload_label_from_name(workload),
        "experiment": records[0].run.experiment if records else "no experiment",
    }
    return Drawing(plot, times, values)


_BAR_HEIGHT = 0.36

#: Origin of a bar -> its offset in a system's row, the label at its end, and the label of no bar.
_BARS = {
    "published": (-0.2, "2021", "2021: not published"),
    "measured": (0.2, "here", "here: not measured"),
}

_FILLS = {**style.PHASE_FILLS, "network": style.PHASE_FILLS["communication"]}
_ORIGIN_LABELS = {
    "published": "published, 2021",
    "measured": "measured here",
    "subtraction": "here, by subtraction",
}


def _is_comparable(records: Sequence[Record]) -> bool:
    """Whether a distributed system of the published set-up was run."""
    return any(
        record.ok and not record.run.system.is_local and steps_of_ten_epochs(record) > 0
        for record in records
    )


def _ten_epochs_text(records: Sequence[Record]) -> str:
    network = (
        "it is measured: transfer and waiting for other workers"
        if has_phases(records)
        else "it was not measured, because the runs have no instrumented steps"
    )
    return (
        "The study of 2021 published the **seconds of ten epochs** on three machines, by phase. "
        "The times of this machine are **extrapolated**: a worker's mean step, times the steps of "
        "a worker in those ten epochs. The published *network* is the total less that of a single "
        f"process; here, {network}. Start-up is not included."
    )


@figure(
    "ten-epochs-{workload}",
    title="Ten epochs, then and now",
    text=_ten_epochs_text,
    needs=_is_comparable,
)
def ten_epochs_figure(records: Sequence[Record]) -> Drawing:
    """{label}: ten epochs, {count:,.0f} steps of {batch} images a worker. Above: published in 2021
    (three machines); below: here ({workers} workers), extrapolated from {steps} timed steps in each
    block. {bars}The diamond and the label are the mean of the timed steps{interval}.
    """
    times = ten_epochs(records)
    systems = list(dict.fromkeys(times["system"]))
    plot, axes = system_rows(systems, 1.15, row_height=0.66)
    parts = times[[f"{part}_s" for part in PARTS]]
    longest_s = max(parts.sum(axis="columns").max(), times["total_s"].max())
    # The interval of two blocks may be much longer than all bars.
    limit_s = min(1.3 * longest_s, np.fmax(longest_s, times["high_s"].max()))
    axes.set_xlim(0, limit_s * 1.24)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    by_origin = times.set_index(["system", "origin"])
    for row, system in enumerate(systems):
        for origin in _BARS:
            key = (system, origin)
            own = by_origin.loc[key] if key in by_origin.index else None
            _plot_bar(axes, row, origin, own, limit_s)
    axes.set_xlabel("seconds of ten epochs")
    names = {part: "network (with waiting)" if part == "network" else part for part in PARTS}
    fills = {names[part]: _FILLS[part] for part in PARTS if (parts[f"{part}_s"] > 0).any()}
    style.legend_above(plot, fill_legend(fills, "timed steps"), 4, columnspacing=1.4)
    first = next(record for record in records if not record.run.system.is_local)
    run, blocks = first.run, times["blocks"].max()
    values = {
        "workload": run.workload_name,
        "label": labels.workload_label_from_name(run.workload_name),
        "count": steps_of_ten_epochs(first),
        "batch": run.local_batch,
        "workers": run.topology.workers,
        "steps": run.steps.timed,
        "bars": "The bars here are means of the instrumented steps. " * has_phases(records),
        "interval": f", with its 95% interval over {blocks:.0f} blocks" if blocks > 1 else "",
    }
    return Drawing(plot, times, values)


def _plot_bar(axes: Axes, row: int, origin: str, times: pd.Series | None, limit_s: float) -> None:
    """Plot a bar and its total; an interval beyond the limit ends there, with an arrow."""
    offset, label, missing = _BARS[origin]
    y = row + offset
    if times is None:
        style.annotate(axes, missing, (0, y), (4, 0), fontsize=8, **style.ASIDE)
        return
    segments = [(times[f"{part}_s"], _FILLS[part]) for part in PARTS]
    end_s = stacked_bar(axes, y, segments, _BAR_HEIGHT)
    if not end_s:
        empty_bar(axes, y, times["total_s"], _BAR_HEIGHT)
    if origin == "measured":
        high_s = min(times["high_s"], limit_s)
        interval_mark(axes, y, times["total_s"], (times["low_s"], high_s), size=5.5)
        if times["high_s"] > limit_s:
            axes.plot(limit_s, y, ">", color=style.FOREGROUND, markersize=4)
        end_s = np.fmax(max(end_s, times["total_s"]), high_s)
    style.annotate(axes, f"{label}: {_seconds(times['total_s'])} s", (end_s, y), (6, 0), fontsize=8)


@table("ten_epochs", title="Ten epochs: published, measured, by subtraction", needs=_is_comparable)
def ten_epochs_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the seconds of ten epochs, grouped by system."""
    rows = [_row(row) for row in ten_epochs(records).to_dict("records")]
    numbers = set(rows[0]) - {"system", "seconds of ten epochs"}
    return text_table(rows, numbers, group_by="system")


def _row(times: Mapping[Any, Any]) -> dict[str, str]:
    rest = pd.Series([times["update_s"], times["other_s"]], dtype=float).sum(min_count=1)
    is_measured = times["origin"] == "measured"
    return {
        "system": labels.system_label(times["system"]),
        "seconds of ten epochs": _ORIGIN_LABELS[times["origin"]],
        "total": _seconds(times["total_s"]),
        "95% interval": _interval(times) if is_measured else "–",
        **{part: _seconds(times[f"{part}_s"]) for part in PARTS[:4]},
        "update, other": _seconds(rest),
        "start-up": _seconds(times["startup_s"]),
        "from steps": f"{times['blocks']:.0f} × {times['steps']:,.0f}" if is_measured else "–",
    }


def _seconds(value_s: float) -> str:
    return format_number(value_s, ",.0f" if abs(value_s) >= 1000 else ".1f")


def _interval(times: Mapping[Any, Any]) -> str:
    form = ",.0f" if times["low_s"] >= 1000 else ".1f"
    return format_interval(times["low_s"], times["high_s"], form)


def _is_checkable(records: Sequence[Record]) -> bool:
    """Whether ten epochs were run; then reading the others is worth its time."""
    return any(map(has_ten_epochs, records)) and not extrapolation_errors(records).empty


@table(
    "extrapolation",
    title="Ten epochs, extrapolated and run",
    text="The seconds of ten epochs are extrapolated from few steps. Where ten epochs were run, on "
    "the same machine, system and hosts, the table compares the extrapolation with the seconds of "
    "the same number of timed steps. The last column extrapolates from the first steps of the "
    "long runs themselves, and so has no part of what differs between runs.",
    needs=_is_checkable,
)
def extrapolation_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of ten epochs, extrapolated beside run, by workload."""
    rows = [
        {
            "workload": labels.workload_label_from_name(row["workload"]),
            "system": labels.system_label(row["system"]),
            "from": row["experiment"],
            "steps": f"{row['blocks']} × {row['steps']:,}",
            "extrapolated, s": _seconds(row["extrapolated_s"]),
            "95% interval": _interval(row),
            "steps run": f"{row['long_blocks']} × {row['long_steps']:,}",
            "measured, s": _seconds(row["measured_s"]),
            "error": format_number(row["error"], "+.1%"),
            "error, own steps": format_number(row["own_error"], "+.1%"),
        }
        for row in extrapolation_errors(records).to_dict("records")
    ]
    return text_table(rows, set(rows[0]) - {"workload", "system", "from"}, group_by="workload")
