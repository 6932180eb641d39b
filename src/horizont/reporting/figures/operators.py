"""Operators: time by class, the slowest ones, and the cost of the profilers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm

from horizont.analysis.operators import (
    classes_by_workload,
    is_on_gpu,
    operator_classes,
    operator_table,
    ordered_classes,
    phases_from_profile,
    profiler_overhead,
)
from horizont.config.system import FRAMEWORKS
from horizont.errors import UserError
from horizont.records.record import Record
from horizont.reporting import labels, style
from horizont.reporting.figures.elements import fill_legend, panel_grid, stacked_bar, system_rows
from horizont.reporting.output import TableOutput
from horizont.reporting.registry import Drawing, figure, table
from horizont.reporting.tables import format_table, format_wide, text_table

#: The matrix leaves out classes with a smaller part of every step.
_LEAST_FRACTION = 0.05

#: Of ratios from 1 to 10 on a logarithmic scale; larger ones have the last colour.
_RATIO_COLOURS = LinearSegmentedColormap.from_list("ratio", ["#dcebf5", "#f3c98b", "#b23a2e"])

#: Text on light and on dark fields, whose colours are those of every page.
_INK = ("#1c2126", "#fdfdfd")


def _is_profiled(records: Sequence[Record]) -> bool:
    return any(record.is_profiled for record in records)


@figure("operators", title="Operator classes", needs=_is_profiled)
def operator_figure(records: Sequence[Record]) -> Drawing:
    """Time in the operators of one training step by class, from the profiler of each framework:
    self time, without the operators that an operator calls. Light: forward pass, dark: backward
    pass. “Outside operators” is {rest}.
    """
    classes = operator_classes(records)
    if classes.empty:
        raise UserError("steps.profiled", 0, "at least 1, and a run that succeeded")
    systems = list(dict.fromkeys(classes["system"]))
    plot, axes = system_rows(systems, 1.2)
    for row, system in enumerate(systems):
        own = classes[classes["system"] == system]
        fills = own["operator_class"].map(style.operator_class_fill)
        stacked_bar(axes, row, zip(own["self_s"] * 1e3, fills, strict=True), 0.6)
    axes.set_xlabel("milliseconds per step")
    axes.set_xlim(left=0)
    fills = {name: style.operator_class_fill(name) for name in classes["operator_class"]}
    style.legend_above(plot, fill_legend(fills), 3, columnspacing=1.4)
    rest = "the rest of the profiled step: interpreter, dispatch, scheduling"
    if is_on_gpu(records):
        rest = "the rest of the timed step, in which no kernel runs"
    return Drawing(plot, classes, {"rest": rest})


@figure(
    "operators-by-network",
    title="Operator classes by network",
    text="The study of 2021 profiled four networks in one process. Each field is the time of a "
    "class in a step, relative to the framework that spends least on it.",
    needs=_is_profiled,
)
def operator_matrix(records: Sequence[Record]) -> Drawing:
    """Time per step by operator class, framework and network, as a multiple of that of the
    framework that spends least, from the profilers of one process. Only: no other framework has
    this class; empty: it takes no time. Without classes that take less than {least:.0%} of every
    step.
    """
    times = classes_by_workload(records)
    largest = times.groupby("operator_class")["fraction"].max()
    classes = ordered_classes(largest.index[largest >= _LEAST_FRACTION])
    shown = times[times["operator_class"].isin(classes)]
    workloads = list(dict.fromkeys(times["workload"]))
    frameworks = [name for name in FRAMEWORKS if name in set(times["framework"])]
    row_height = 0.24 * len(classes) + 1.0
    plot, panels = panel_grid(len(workloads), 3, row_height, margin=0, sharey=True)
    # Fields have the same width in a figure of fewer columns.
    plot.set_figwidth(1.75 + (style.FIGURE_WIDTH - 1.75) * min(len(workloads), 3) / 3)
    for axes, workload in zip(panels, workloads, strict=True):
        own = shown[shown["workload"] == workload]
        _plot_ratios(axes, own, classes, frameworks)
        axes.set_title(labels.workload_label_from_name(workload).replace(" on ", "\non "), pad=6)
    return Drawing(plot, times, {"least": _LEAST_FRACTION})


def _plot_ratios(axes: Axes, times: pd.DataFrame, rows: list[str], columns: list[str]) -> None:
    """Plot a field per class and framework, whose colour and number are the ratio."""
    norm = LogNorm(1.0, 10.0, clip=True)
    present = times[times["self_s"] > 0]
    for name, framework, ratio in present[["operator_class", "framework", "ratio"]].to_numpy():
        row, column = rows.index(name), columns.index(framework)
        level = 0.0 if pd.isna(ratio) else float(norm(ratio))
        axes.barh(row, 0.96, 0.94, column - 0.48, color=_RATIO_COLOURS(level), edgecolor="none")
        ink = _INK[level > 0.7]
        axes.text(column, row, format_ratio(ratio), ha="center", va="center", fontsize=8, color=ink)
    style.grid_axis(axes, "x")
    axes.grid(visible=False)
    axes.set_xlim(-0.55, len(columns) - 0.45)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), labels=rows)
    names = map(labels.framework_label, columns)
    axes.set_xticks(range(len(columns)), labels=names, rotation=38, ha="right", fontsize=8)


def format_ratio(ratio: float) -> str:
    """Format a ratio with two digits; the colours distinguish no larger ones, which are noisy."""
    if pd.isna(ratio):
        return "only"
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}" if ratio < 99.5 else ">99"


@table("operator_classes", title="Operator classes", needs=_is_profiled)
def operator_class_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of milliseconds per step, one row per class and one column per system."""
    classes = operator_classes(records)
    wide = classes.set_index(["operator_class", "system"])["self_s"].unstack(sort=False) * 1e3
    wide = wide.reindex(list(ordered_classes(classes["operator_class"])))
    wide.loc["step"] = wide.sum()
    return format_wide(wide.rename(columns=labels.single_process_label), "milliseconds per step")


@table("slowest_operators", title="The slowest operators", needs=_is_profiled)
def slowest_operator_table(records: Sequence[Record], count: int = 10) -> TableOutput:
    """Build the table of the slowest operators of each system, by their native names."""
    steps_s = profiler_overhead(records).set_index("system")["whole_s"]
    rows = [
        {
            "title": labels.single_process_label(str(system)),
            "operator": operator["operator"],
            "class": operator["operator_class"],
            "inputs": _input_shapes(operator["shapes"]),
            "calls": f"{operator['calls']:g}",
            "ms": f"{operator['self_s'] * 1e3:.2f}",
            "of the step": f"{operator['self_s'] / steps_s[system]:.1%}",
        }
        for system, own in operator_table(records).groupby("system", sort=False)
        for operator in own.head(count).to_dict("records")
    ]
    return text_table(rows, ("calls", "ms", "of the step"), group_by="title")


def _input_shapes(shapes: str) -> str:
    """Format the shapes of an operator's first two inputs: `42×6×14×14, 16×6×5×5`."""
    found = [shape.replace(", ", "×") for shape in re.findall(r"\[([^][]+)\]", shapes)]
    return ", ".join(found[:2]) if found else "–"


@table("profiler_overhead", title="Profiler overhead", needs=_is_profiled)
def profiler_overhead_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the profiled step beside the timed one."""
    columns = ["system", "timed_without_load_s", "profiled_s", "profile_ratio", "operators_s"]
    columns += ["operators_fraction", "unclassified_fraction"]
    return format_table(profiler_overhead(records), columns)


@table("profiled_phases", title="Phases of the timed step", needs=_is_profiled)
def profiled_phase_table(records: Sequence[Record]) -> TableOutput:
    """Build the table of the phases of the timed step, as the profile attributes them."""
    return format_table(phases_from_profile(records))
