"""Input pipelines on their own and while training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from horizont.analysis.input import input_pipelines
from horizont.config.experiment import Experiment
from horizont.config.framework import ReaderInfo
from horizont.config.system import FRAMEWORKS, framework_info, parse_system
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import annotate_missing
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, no_drawing, table
from horizont.reporting.tables import format_number, text_table
from horizont.wording import shorten

_BAR_HEIGHT = 0.62
_WAIT: dict[str, Any] = {
    "facecolor": style.PHASE_COLOURS["load"],
    "edgecolor": style.FOREGROUND,
    "linewidth": 0.5,
}
_REST: dict[str, Any] = {"facecolor": style.PHASE_COLOURS["other"], "alpha": 0.55}


@figure("input", title="Input pipelines")
def input_figure(records: Sequence[Record]) -> Drawing:
    """Left: time per batch of the pipeline on its own, without a network; hollow: mean of the first
    epoch, filled: of later epochs. Right: the instrumented step of the training, with its wait for
    the next batch in colour. A star: the reader supports only the order of the files. Medians over
    the runs.
    """
    rows = input_pipelines(records)
    if rows.empty:
        return no_drawing("no run succeeded")
    # Each system has a row for its name above those of its pipelines.
    is_first = ~rows["system"].duplicated()
    positions = is_first.cumsum() + np.arange(len(rows))
    headings = rows.loc[is_first, "system"]
    plot = style.new_figure(0.27 * (len(rows) + len(headings)) + 1.1)
    alone, training = plot.subplots(1, 2, sharey=True)
    _label_rows(alone, rows, positions, headings)
    for position, (_, row) in zip(positions, rows.iterrows(), strict=True):
        _plot_input_only(alone, position, row)
        _plot_training(training, position, row)
    style.grid_axis(alone, "x")
    style.grid_axis(training, "x")
    style.set_log_scale(alone, "x")
    alone.set_xlabel("alone, ms per batch")
    longest = (rows["wait_s"] / rows["wait_fraction"]).max() * 1e3
    training.set_xlim(0, longest * 1.2 if longest > 0 else 1)
    training.set_xlabel("step, ms")
    training.tick_params(axis="y", labelleft=False)
    dots: dict[str, Any] = {"marker": "o", "linestyle": "", "markeredgecolor": style.FOREGROUND}
    handles = [
        Line2D([], [], markerfacecolor=style.BACKGROUND, label="first epoch", **dots),
        Line2D([], [], markerfacecolor=style.FOREGROUND, label="later epochs", **dots),
        Patch(label="wait", **_WAIT),
        Patch(label="rest of the step", **_REST),
    ]
    style.legend_above(plot, handles, 4)
    return Drawing(plot, rows)


def _label_rows(axes: Axes, rows: pd.DataFrame, positions: pd.Series, headings: pd.Series) -> None:
    names = rows["input"] + np.where(rows["shared_order"], "", " *")
    frameworks = headings.map(labels.framework_of).map(labels.framework_label)
    ticks = [*positions, *(positions[headings.index] - 1)]
    axes.set_yticks(ticks, labels=[*names, *frameworks])
    axes.set_ylim(max(positions) + 0.6, -0.7)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=8)
    for label in axes.get_yticklabels()[len(positions) :]:
        label.set_fontweight("bold")


def _plot_input_only(axes: Axes, position: int, row: pd.Series) -> None:
    first, later = row["first_epoch_s"] * 1e3, row["later_epochs_s"] * 1e3
    colour, marker = style.system_colour(row["system"]), style.system_marker(row["system"])
    axes.plot([first, later], [position, position], color=colour, linewidth=1, alpha=0.5)
    hollow: dict[str, Any] = {"color": style.BACKGROUND, "markeredgecolor": colour}
    axes.plot(first, position, marker, markersize=6, **hollow)
    axes.plot(later, position, marker, color=colour, markersize=5)


def _plot_training(axes: Axes, position: int, row: pd.Series) -> None:
    wait, fraction = row["wait_s"] * 1e3, row["wait_fraction"]
    if np.isnan(wait):
        annotate_missing(axes, position, str(row["reason"]))
        return
    step = wait / fraction if fraction else row["step_s"] * 1e3
    axes.barh(position, wait, _BAR_HEIGHT, **_WAIT)
    axes.barh(position, step - wait, _BAR_HEIGHT, wait, edgecolor=style.BACKGROUND, **_REST)
    font: dict[str, Any] = {"fontsize": 7.5, "color": style.MUTED}
    style.annotate(axes, f"{fraction:.1%}", (step, position), (3, 0), **font)


@table("input_table", title="Input pipelines")
def input_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of input pipelines, grouped by system; times in milliseconds."""
    rows = [_input_row(row) for _, row in input_pipelines(records).iterrows()]
    numbers = set(rows[0]) - {"system", "input", "note"} if rows else ()
    return text_table(rows, numbers, group_by="system")


def _input_row(row: pd.Series) -> dict[str, str]:
    return {
        "system": labels.system_label(row["system"]),
        "input": row["input"] + ("" if row["shared_order"] else " *"),
        "first batch": format_number(row["first_batch_s"] * 1e3, ".1f"),
        "first epoch": format_number(row["first_epoch_s"] * 1e3, ".2f"),
        "later": format_number(row["later_epochs_s"] * 1e3, ".2f"),
        "wait": format_number(row["wait_s"] * 1e3, ".2f"),
        "of the step": format_number(row["wait_fraction"], ".1%"),
        "timed: blocked": format_number(row["blocked_s"] * 1e3, ".2f"),
        "timed step": format_number(row["step_s"] * 1e3, ".1f"),
        "over memory": format_number(row["extra_over_memory_s"] * 1e3, "+.1f"),
        "memory, MiB": format_number(row["memory_bytes"] * 2**-20, ".0f"),
        "in page cache": format_number(row["page_cache_fraction"], ".0%"),
        "runs": f"{row['ok']} of {row['planned']}",
        "note": shorten(row["reason"]),
    }


@table("readers", title="The readers")
def reader_table(settings: Experiment) -> TableOutput:
    """Build the table of the file readers of an experiment's frameworks."""
    used = {parse_system(name).framework for name in settings.systems}
    rows = [
        {
            "framework": labels.framework_label(framework),
            "reader": name,
            "mechanism": info.mechanism,
            "order": "as requested" if info.ordered else "of the files",
            "parallel reading": info.workers,
            "prefetching": _prefetching(info),
            "cache": info.cache_scope + (", always" if info.always_cached else ""),
        }
        for framework in FRAMEWORKS
        if framework in used
        for name, info in framework_info(framework).readers.items()
    ]
    return text_table(rows, group_by="framework", measured=False)


def _prefetching(info: ReaderInfo) -> str:
    if info.max_prefetch_inline == 1:
        return "one batch"
    return "with processes" if info.workers == "processes" else "yes"
