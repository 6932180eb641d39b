"""Input pipelines: what they give alone, and how long a training waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from horizont import analysis
from horizont.config.framework import ReaderInfo
from horizont.config.study import Experiment
from horizont.config.system import FRAMEWORKS, framework_info, parse_system
from horizont.records.record import Record
from horizont.reporting import figures, labels
from horizont.reporting.figures.throughput import (
    annotate_missing,
    legend_above,
    message_figure,
    set_log_scale,
)
from horizont.reporting.page import FigureOutput
from horizont.reporting.style import (
    BACKGROUND,
    FOREGROUND,
    framework_marker,
    MUTED,
    PHASE_COLOURS,
    book_style,
    grid_axis,
    new_figure,
    system_colour,
)
from horizont.reporting.tables import Table, shorten, text_table

#: Height of a row in inches: an input has one line of text.
INPUT_ROW_HEIGHT = 0.27
_INPUT_BAR_HEIGHT = 0.62


def input_chart(table: pd.DataFrame) -> Figure:
    """Draw a row for each input under a heading for each system.

    Parameters
    ----------
    table
        As of `horizont.analysis.inputs`.
    """
    with book_style():
        if table.empty:
            return message_figure("no run was made")
        places, headings = _row_positions(table)
        rows = len(table) + len(headings)
        figure = new_figure(INPUT_ROW_HEIGHT * rows + 1.1)
        alone, trained = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1])
        _label_input_rows(alone, table, places, headings)
        for place, (_, row) in zip(places, table.iterrows(), strict=True):
            _plot_input_only(alone, place, row)
            _plot_training(trained, place, row)
        grid_axis(alone, "x")
        grid_axis(trained, "x")
        set_log_scale(alone, "x")
        alone.set_xlabel("pipeline alone, ms a batch")
        longest = (table["wait_s"] / table["wait_fraction"]).max() * 1e3
        trained.set_xlim(0, longest * 1.2 if longest > 0 else 1)
        trained.set_xlabel("instrumented step, ms")
        trained.tick_params(axis="y", labelleft=False)
        _input_legend(figure)
    return figure


def _row_positions(table: pd.DataFrame) -> tuple[list[int], dict[int, str]]:
    """Count the rows from the top down, with a line free for the heading of each system."""
    places: list[int] = []
    headings: dict[int, str] = {}
    line, before = 0, None
    for system in table["system"]:
        if system != before:
            headings[line] = str(system)
            line, before = line + 1, system
        places.append(line)
        line += 1
    return places, headings


def _label_input_rows(
    axes: Axes, table: pd.DataFrame, positions: list[int], headings: dict[int, str]
) -> None:
    marked = ["" if ordered else " *" for ordered in table["shared_order"]]
    rows = [name + mark for name, mark in zip(table["input"], marked, strict=True)]
    axes.set_yticks(
        [*positions, *headings],
        labels=[
            *rows,
            *(labels.framework_label(labels.framework_of(name)) for name in headings.values()),
        ],
    )
    axes.set_ylim(max(positions) + 0.6, -0.7)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=8)
    for label in axes.get_yticklabels()[len(positions) :]:
        label.set_fontweight("bold")


def _plot_input_only(axes: Axes, position: int, row: pd.Series) -> None:
    first, later = row["first_epoch_s"] * 1e3, row["later_epochs_s"] * 1e3
    colour = system_colour(row["system"])
    mark = framework_marker(labels.framework_of(row["system"]))
    axes.plot([first, later], [position, position], color=colour, linewidth=1, alpha=0.5)
    axes.plot(first, position, mark, color=BACKGROUND, markeredgecolor=colour, markersize=6)
    axes.plot(later, position, mark, color=colour, markersize=5)


def _plot_training(axes: Axes, position: int, row: pd.Series) -> None:
    wait, share = row["wait_s"] * 1e3, row["wait_fraction"]
    if np.isnan(wait):
        annotate_missing(axes, position, str(row["reason"]))
        return
    step = wait / share if share else row["step_s"] * 1e3
    axes.barh(
        position,
        wait,
        height=_INPUT_BAR_HEIGHT,
        color=PHASE_COLOURS["load"],
        edgecolor=FOREGROUND,
        linewidth=0.5,
    )
    rest: dict[str, Any] = {"color": PHASE_COLOURS["other"], "alpha": 0.55, "edgecolor": BACKGROUND}
    axes.barh(position, step - wait, left=wait, height=_INPUT_BAR_HEIGHT, **rest)
    axes.annotate(
        f"{share:.1%}",
        (step, position),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        color=MUTED,
    )


def _input_legend(figure: Figure) -> None:
    dots: dict[str, Any] = {"marker": "o", "linestyle": "", "markeredgecolor": FOREGROUND}
    handles = [
        Line2D([], [], markerfacecolor=BACKGROUND, label="first epoch", **dots),
        Line2D([], [], markerfacecolor=FOREGROUND, label="later epochs", **dots),
        Patch(facecolor=PHASE_COLOURS["load"], edgecolor=FOREGROUND, linewidth=0.5, label="waits"),
        Patch(facecolor=PHASE_COLOURS["other"], alpha=0.55, label="computes"),
    ]
    legend_above(figure, handles, 4)


def staleness_bars(staleness: pd.DataFrame) -> Figure:
    """Draw the share of updates of each staleness, systems side by side.

    Parameters
    ----------
    staleness
        As of `horizont.analysis.communication`.
    """
    import seaborn as sns  # takes two seconds, which pages without this figure need not wait

    systems = list(dict.fromkeys(staleness["system"]))
    with book_style():
        figure = new_figure(2.6)
        axes = figure.subplots()
        grid_axis(axes, "y")
        if not systems:
            axes.text(0.5, 0.5, "no updates were recorded", ha="center", color=MUTED)
            return figure
        colours = {name: system_colour(name) for name in systems}
        sns.barplot(
            staleness,
            x="staleness",
            y="fraction",
            hue="system",
            hue_order=systems,
            order=range(int(staleness["staleness"].max()) + 1),
            palette=colours,
            saturation=1,
            edgecolor=BACKGROUND,
            legend=False,
            ax=axes,
        )
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_xlabel("staleness: updates by others since the worker got its weights")
        axes.set_ylabel("updates")
        handles = [
            Patch(color=colour, label=labels.system_label(name)) for name, colour in colours.items()
        ]
        legend_above(figure, handles, 2)
    return figure


def input_figure(records: Sequence[Record]) -> FigureOutput:
    """Draw what each input gives alone, and what the training waits for."""
    caption = (
        "Left: seconds that a batch takes from the pipeline alone, without a network; open: mean "
        "of the first epoch, filled: of those after it. Right: the instrumented step of the "
        "training; the coloured part is the wait for the next batch. A star: the reader knows the "
        "order of the files only. Medians over the runs."
    )
    found = analysis.input_pipelines(records)
    return FigureOutput(figures.input_chart(found), "input", caption, found)


def input_table(records: Sequence[Record]) -> Table:
    """Write what each input gives and takes, a part for each system."""
    rows = [_input_row(row) for _, row in analysis.input_pipelines(records).iterrows()]
    numbers = set(rows[0]) - {"system", "input", "note"} if rows else ()
    return text_table(pd.DataFrame(rows), numbers, group_by="system" if rows else None)


def _input_row(row: pd.Series) -> dict[str, str]:
    return {
        "system": labels.system_label(row["system"]),
        "input": row["input"] + ("" if row["shared_order"] else " *"),
        "first, ms": _format_scaled(row["first_batch_s"], 1e3, ".1f"),
        "first epoch": _format_scaled(row["first_epoch_s"], 1e3, ".2f"),
        "later": _format_scaled(row["later_epochs_s"], 1e3, ".2f"),
        "wait": _format_scaled(row["wait_s"], 1e3, ".2f"),
        "of the step": _format_scaled(row["wait_fraction"], 1, ".1%"),
        "bare: blocked": _format_scaled(row["blocked_s"], 1e3, ".2f"),
        "bare step": _format_scaled(row["step_s"], 1e3, ".1f"),
        "over memory": _format_scaled(row["extra_over_memory_s"], 1e3, "+.1f"),
        "memory, MiB": _format_scaled(row["memory_bytes"], 2**-20, ".0f"),
        "pages kept": _format_scaled(row["page_cache_fraction"], 1, ".0%"),
        "runs": f"{row['ok']} of {row['planned']}",
        "note": shorten(row["reason"]),
    }


def _format_scaled(value: float, factor: float, form: str) -> str:
    return "–" if pd.isna(value) else format(value * factor, form)


def reader_table(settings: Experiment) -> Table:
    """Tell what each reader of an experiment's frameworks is and can do."""
    used = {parse_system(name).framework for name in settings.systems}
    rows = [
        _reader_row(framework, name, info)
        for framework in FRAMEWORKS
        if framework in used
        for name, info in framework_info(framework).readers.items()
    ]
    return replace(text_table(pd.DataFrame(rows), group_by="framework"), measured=False)


def _reader_row(framework: str, name: str, info: ReaderInfo) -> dict[str, str]:
    beside = info.workers if info.workers != "none" else "nothing"
    ahead = "with " + info.workers if info.workers == "processes" else "yes"
    return {
        "framework": labels.framework_label(framework),
        "reader": name,
        "made of": info.mechanism,
        "order": "as given" if info.ordered else "of the files",
        "reads beside": beside,
        "fetches ahead": ahead if info.max_prefetch_inline != 1 else "one batch",
        "the cache keeps": info.cache_scope + (", always" if info.always_cached else ""),
    }
